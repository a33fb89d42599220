"""The half of Sequencer that looks at a queue and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .. import calls
from ..doctor.diagnose import diagnose
from ..net.blocking import finish
from ..net.refusals import Reading
from ..settings.options import QueueOptions
from ..settings.policy import Policy
from ..store.envelope import encode_id
from ..store.failure import decode_failure
from ..store.group import decode_group, encode_group
from ..store.item import Group
from ..store.record import readable_message
from ..store.watermark import late_below
from ..values.checks import check_integer
from ..values.message import Message
from ..values.views import AuditReport, Explanation, Finding, GroupInfo, GroupState, MessageInfo, QueueInfo
from . import views
from .audit import prove_lanes
from .dead_letters import DeadLetterFilter, oldest
from .explain import explanation
from .session import Session
from .state import message_state

MAX_LIMIT = 10**9
"""The most that one look may ask for: a whole number that Redis can read, and more than a server holds."""


class Looking:
    """Methods of Sequencer. A mere look does not register the queue."""

    options: QueueOptions
    _session: Session
    _rates: views.Rates

    @property
    def policy(self) -> Policy:
        """The queue's policy as the server has it now, after what this client asks for. Raises ServerError."""
        self._session.lanes_now(register=bool(self.options.asked))
        with self._session.link() as link:
            return self._session.fresh_policy_on(link)

    def info(self) -> QueueInfo:
        """Backlog, lag, groups by state, totals; rates since the last `info()` of this client. Raises ServerError."""
        with self._view() as view:
            return self._rates.add(view.info())

    def groups(self, state: GroupState | None = None, *, limit: int = 1000) -> list[GroupInfo]:
        """Groups, the longest due first, at most `limit`; only those in `state` if given. Raises ConfigurationError."""
        check_integer("limit", limit, 1, MAX_LIMIT)
        with self._view() as view:
            return view.groups(state, limit)

    def parked(self, *, limit: int = 1000) -> list[GroupInfo]:
        """Parked groups, each with the failure of its head."""
        return self.groups("parked", limit=limit)

    def paused_groups(self) -> list[tuple[str, ...]]:
        """The groups that were paused, whether they have messages or not."""
        lanes = self._session.lanes_now(register=False)
        with self._session.link() as link:
            found = link.commands([("SMEMBERS", keys.paused) for keys in lanes])
            return sorted(decode_group(group.decode("utf-8", "surrogateescape")) for some in found for group in some)

    def peek(self, group: Group, *, limit: int = 10) -> list[Message]:
        """The next messages of a group, in order; changes nothing. Empty when the group has none."""
        key = encode_group(group)
        check_integer("limit", limit, 1, MAX_LIMIT)
        with self._view() as view:
            return view.peek(key, limit)

    def explain(self, group: Group) -> Explanation:
        """Why a group does not move, and what would move it. Raises InvalidGroup, ServerError."""
        key = encode_group(group)
        keys = self._session.keys_of_now(key, register=False)
        with self._session.link() as link:
            return explanation(key, link.run_one(calls.inspect(keys, key)), self._session.fresh_policy_on(link))

    def get(self, group: Group, id: str | int) -> MessageInfo | None:
        """One message: its state, when it is due, attempts, error and content; None when nothing is known of it."""
        key, message_id = encode_group(group), encode_id(id)
        keys = self._session.keys_of_now(key, register=False)
        with self._session.link() as link:
            facts = link.run_one(calls.inspect(keys, key, message_id))
            if not facts.member:
                wanted = DeadLetterFilter(key, message_id)
                for dead in finish(oldest(self._session, [keys], wanted)):
                    return MessageInfo(
                        message_id, dead.message.group, "dead", None, dead.attempts, dead.error, dead.message
                    )
        parts = decode_group(key)
        if not facts.member:
            return MessageInfo(message_id, parts, "handled", None, 0, None, None) if facts.is_handled else None
        rest = (facts.member, facts.score or "nan", facts.record, parts, 0, self.options.queue)
        with Reading(self._session.name):
            message = readable_message(*rest, late_below(facts.mark))
        failure, member = decode_failure(facts.failure) if facts.failure else (None, "")
        state, due_us = message_state(facts)
        due_in_s = None if due_us is None else max(0.0, (due_us - facts.now_us) / 1e6)
        error = failure if member == facts.member else None
        return MessageInfo(message_id, parts, state, due_in_s, message.attempt - 1, error, message)

    def audit(self) -> AuditReport:
        """What the runs that consumers with `audit=True` recorded show of order. Raises ServerError, DataError."""
        lanes = self._session.lanes_now(register=False)
        with self._session.link() as link:
            return prove_lanes(link, lanes)

    def doctor(self, *, repair: bool = False, limit: int | None = None) -> list[Finding]:
        """Examine the server and this queue's invariants; with `repair`, mend what the data allow.

        `limit`: about how many names to read. Raises ConfigurationError, ServerUnavailable.
        """
        return diagnose(self._session.endpoint, self.options.namespace, self.options.queue, repair=repair, limit=limit)

    @contextmanager
    def _view(self) -> Iterator[views.View]:
        lanes = self._session.lanes_now(register=False)
        with self._session.link() as link:
            yield views.View(link, lanes, self.options)
