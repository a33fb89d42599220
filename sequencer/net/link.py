"""One connection, and what is sent on it: calls in one round trip or ahead of their answers, and plain commands; when
the server and the queue are checked over it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar, Unpack

import redis

from ..calls.call import UNDONE, Call
from ..calls.net_protocol import Alone, Command, How
from ..errors import ConfigurationError, ServerNotUsable, ServerUnavailable
from ..settings.options import Replicas
from ..store.keys import ShardKeys
from ..store.replies import Reading
from .cluster import ClusterConnection
from .endpoint import CALL_TIMEOUT_S, Connection, Endpoint
from .refusals import NodeAway, is_stale, translate
from .repeats import Ask, Repeats, Sleep, is_undone, round_trip, settle

T = TypeVar("T")
RECENT_S = 1.0
"""A connection that was used within this time counts as open; the shortest `timeout` of a server is as long."""
REFRESH_EVERY_S = 60.0
"""How long what was seen of a server and a queue is believed, on a connection that is used."""
CHECK_EVERY_S = 2.0
"""How long a client in use believes that its server evicts nothing: to ask costs the server 8 us."""
INVALIDATED = 0.0  # `check_at` of a client that lost something: it checks at the next call


class Guide(Protocol):
    """What links ask of a queue's session, over their own connection alone, on which nothing is in flight."""

    check_at: float  # when one of the client's links is to check the server again, by the clock of links

    @property
    def generation(self) -> str:
        """As it is known now; "" while the queue was not found."""
        ...

    async def refresh(self, alone: Alone, *, is_new: bool) -> None:
        """Check whether server and queue are as they were: on each new connection, and each REFRESH_EVERY_S of use."""
        ...

    async def check(self, alone: Alone) -> None:
        """Check whether the server evicts keys: each CHECK_EVERY_S of use, and where something was lost."""
        ...

    async def find_generation(self, alone: Alone) -> None:
        """A shard has another generation. Raises SequencerError where none is found."""
        ...

    def of_shard(self, keys: ShardKeys) -> Guide:
        """For links over which this shard alone is asked: others may be away."""
        ...


class Link:
    """One connection, made when first used and again after an error. Not for two threads at once."""

    def __init__(self, endpoint: Endpoint, guide: Guide | None = None, *, only_follows: bool = False) -> None:
        """Without a `guide`, calls bring no generation. One that `only_follows` leaves checks to others."""
        self.endpoint = endpoint
        self.is_repeat = False
        """Whether the last `run` sent its calls more than once, so that a first attempt may have been carried out."""
        self.confirmed = 0  # how many replicas confirmed the last `run` that asked for it
        self.may_check = True
        """Whether a connection that is there already is used for checks; what is to be sent waits for that."""
        self.is_idle = False
        """Whether its consumer found nothing to do: then the server is checked only after an invalidate."""
        self._follows, self._guide = guide, None if only_follows else guide
        self._refresh_at = 0.0  # when to check server and queue again
        self._is_stale = False  # whether a call that was posted came back for its generation
        self._unread = 0  # how many posts are not collected yet: nothing may be asked meanwhile
        self._connection: Connection = None
        self._used_at = self._began = 0.0
        self._known: set[str] = set()  # scripts that were sent in full on this connection

    # -- the connection -----------------------------------------------------------------------------------------

    def connection(self) -> Connection:
        """One that was not used for a while may be closed at the other end by now: then it is replaced."""
        self._began = time.monotonic()
        return self._ready()

    def _is_over(self) -> bool:
        """Whether the time is over that a call may take with all its repeats."""
        return time.monotonic() >= self._until

    @property
    def _until(self) -> float:
        return self._began + self.endpoint.total_s

    def _ready(self) -> Connection:
        began = time.monotonic()
        if self._connection is not None and not self._unread:
            if began - self._used_at > RECENT_S and self._is_closed():
                self.close()
            elif self._guide:
                self._check_again(self._guide, began)
        self._used_at = began
        return self._connection or self._connect()

    def _connect(self) -> Connection:
        for is_last in (False, True):  # what is asked of a fresh one is asked once more, if that one is lost too
            connection = self.endpoint.connect()
            try:
                if self._guide:
                    self._refresh(self._guide, connection, is_new=True)
                break
            except BaseException as error:
                connection.disconnect()
                if is_last or not isinstance(error, ServerUnavailable) or self._is_over():
                    raise
        self._connection, self._known, self._unread = connection, set(), 0
        return connection

    def _is_closed(self) -> bool:
        """Whether the other end closed the connection, which the socket tells without a round trip."""
        try:
            return bool(self._connection.can_read(0))
        except (redis.RedisError, OSError):
            return True

    def refresh(self) -> Connection:
        """Connect again if the other end closed the connection, which the socket tells without a round trip."""
        if self._connection is not None and self._is_closed():
            self.close()
        return self.connection()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    # -- checks -------------------------------------------------------------------------------------------------

    @property
    def is_check_due(self) -> bool:
        """Whether there is a check before anything else is sent."""
        guide, now = self._guide, time.monotonic()
        return guide is not None and self.may_check and (now >= self._refresh_at or self._is_check_due(guide, now))

    def invalidate(self) -> None:
        """Something was lost that the server should have: it is checked before this client sends anything else."""
        if self._guide:
            self._guide.check_at = INVALIDATED

    def _is_check_due(self, guide: Guide, now: float) -> bool:
        return now >= guide.check_at and (guide.check_at == INVALIDATED or not self.is_idle)

    def _check_again(self, guide: Guide, now: float) -> None:
        """Over a connection that is there already, if it is time for that."""
        try:
            if self._is_stale:
                self._find_generation(guide)
            elif self.may_check and now >= self._refresh_at:
                self._refresh(guide, self._connection, is_new=False)
            elif self.may_check and self._is_check_due(guide, now):
                self._check(guide)
        except ServerUnavailable:  # the connection may be all that is lost
            self.close()
            if self._is_over():
                raise

    def _refresh(self, guide: Guide, connection: Connection, *, is_new: bool) -> None:
        finish(guide.refresh(self._alone(connection), is_new=is_new))
        now = time.monotonic()
        self._refresh_at, guide.check_at = now + REFRESH_EVERY_S, now + CHECK_EVERY_S

    def _check(self, guide: Guide) -> None:
        guide.check_at = time.monotonic() + CHECK_EVERY_S  # first: other threads of the client need not check as well
        try:
            finish(guide.check(self._alone(self._connection)))
        except BaseException:
            guide.check_at = INVALIDATED
            raise

    def _find_generation(self, guide: Guide) -> None:
        """Who calls it closes the connection where that is lost."""
        self._is_stale = False
        finish(guide.find_generation(self._alone(self._connection)))

    # -- calls --------------------------------------------------------------------------------------------------

    def _command(self, call: Call[Any]) -> Command:
        return call.known_command(self._known, self._follows.generation if self._follows else "")

    def _whole_command(self, call: Call[Any]) -> Command:
        return call.eval_command(self._follows.generation if self._follows else "")

    def run_one(self, call: Call[T]) -> T:
        result: T = self.run((call,))[0]
        return result

    def run(self, calls: Sequence[Call[Any]], **how: Unpack[How]) -> list[Any]:
        """Send all calls at once and return their parsed replies; `repeats` says what may be sent again. One whose
        script the server has lost runs after the others.

        Raises ServerUnavailable (its `maybe_sent` says whether the calls may have run), ServerNotUsable, QueueFull,
        DataError.
        """
        repeats: Repeats | None = None
        self._began = time.monotonic()
        while True:
            self.is_repeat, is_sent = repeats is not None and repeats.maybe_sent, False
            try:
                connection = self._ready()
                is_sent = True
                return self._run_once(connection, calls, **how)
            except (redis.RedisError, OSError, ServerUnavailable) as error:
                self.close()
                repeats = repeats or Repeats(calls, self.endpoint.attempts)
                failure = repeats.failed(error, self.endpoint.name, is_sent=is_sent, is_over=self._is_over())
                if failure is error:
                    raise
                if failure:
                    raise failure from error
            time.sleep(next(repeats.delays))

    def _run_once(
        self,
        connection: Connection,
        calls: Sequence[Call[Any]],
        *,
        wait: Replicas = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[Any]:
        how = self._command, self._whole_command, self.endpoint, self._guide is not None
        trip = round_trip(calls, *how, self._began, wait)
        try:
            answers: Any = None
            while True:
                commands = trip.send(answers)
                if commands is None:
                    assert self._guide
                    self._find_generation(self._guide)
                elif isinstance(commands, float):
                    time.sleep(commands)
                else:
                    answers, meanwhile = self._exchange(connection, commands, meanwhile), None
        except StopIteration as end:
            values, self.confirmed = end.value
            found: list[Any] = values
            return found

    # -- calls ahead of their answers ---------------------------------------------------------------------------

    def post(self, calls: Sequence[Call[Any]], *, behind: Sequence[Any] = ()) -> None:
        """Send calls, `behind` a plain command if there is one, and wait for nothing: its answer, then `collect`, bring
        the answers in order. Raises as `run`; what was posted before is lost too then.
        """
        try:
            connection = self.connection()
            send(connection, [*([behind] if behind else ()), *map(self._command, calls)])
            self._unread += 1
        except BaseException as error:
            if not isinstance(error, ServerNotUsable):  # a check said so: nothing was sent, and nothing is awaited
                self.close()
            if isinstance(error, redis.RedisError | OSError):
                raise translate(error, self.endpoint.name) from error
            raise

    def is_answered(self, within_s: float) -> bool:
        """Whether `collect` finds an answer or a lost connection in that time, or is to wait, since a check is due."""
        try:
            return self._connection is None or self.is_check_due or bool(self._connection.can_read(within_s))
        except (redis.RedisError, OSError):
            self.close()
            return True

    def collect(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """The replies to what was posted, with the errors of the server. Raises ServerUnavailable, ServerNotUsable."""
        try:
            if self._connection is None:
                raise redis.ConnectionError
            replies = receive(self._connection, len(calls))
            self._unread -= 1
            for call, reply in zip(calls, replies, strict=True):
                if isinstance(reply, redis.exceptions.NoScriptError):
                    self._known.discard(call.script)
                elif is_stale(reply):
                    self._is_stale = True
            return replies
        except BaseException as error:
            self.close()
            if isinstance(error, redis.RedisError | OSError):
                raise translate(error, self.endpoint.name) from error
            raise

    def parsed(self, calls: Sequence[Call[Any]], replies: Sequence[Any]) -> list[Any]:
        """Parsed replies; UNDONE for what is to be sent again, a SequencerError for a refusal. Raises DataError."""
        with Reading(self.endpoint.name):
            return [self._said(call, reply) for call, reply in zip(calls, replies, strict=True)]

    def _said(self, call: Call[Any], reply: Any) -> Any:
        if not isinstance(reply, Exception):
            return call.parse(reply)
        return UNDONE if is_undone(reply) else translate(reply, self.endpoint.name)

    # -- plain commands -----------------------------------------------------------------------------------------

    def command(self, *words: Any) -> Any:
        """One plain command. Raises as `run` does, without repeats."""
        return self.commands([words])[0]

    def commands(self, commands: Sequence[Command]) -> list[Any]:
        """Plain commands in one round trip, repeated once on a fresh connection if a kept one had gone stale."""
        self._began, is_last = time.monotonic(), False
        while True:
            alone = self._alone(self._ready())
            try:
                return finish(alone.read(commands, NodeAway))
            except ServerUnavailable as error:
                if not alone.is_given_up:
                    raise
                error.maybe_sent = True
                if is_last or self._is_over():
                    raise
                is_last = True
            finally:
                if alone.is_given_up:
                    self.close()

    def _alone(self, connection: Connection) -> OneConnection:
        return ConnectionAlone(connection, self.endpoint.name, self.endpoint.total_s, self._until)

    def _exchange(
        self, connection: Connection, commands: Sequence[Command], meanwhile: Callable[[], None] | None = None
    ) -> list[Any]:
        try:
            send(connection, commands)
            if meanwhile:
                meanwhile()
            return receive(connection, len(commands))
        except BaseException:
            # An answer may still be on its way: this connection would give it to the next question.
            self.close()
            raise


class OneConnection:
    """An `Alone`: what is sent is sent once, on one connection or not at all."""

    def __init__(
        self,
        name: str,
        ask: Ask,
        sleep: Sleep,
        timeout_s: float,
        until: float = math.inf,
        cluster: Any = None,
    ) -> None:
        """`timeout_s`: of each question; `until`, by the monotonic clock: of all. `cluster`: the connection, if it is
        one to a cluster.
        """
        self.name, self.is_given_up = name, False
        """Whether it is to be closed at the end, as one that is lost is already."""
        self._ask, self._sleep, self._timeout_s, self._until = ask, sleep, timeout_s, until
        self._cluster = cluster

    async def answers(self, commands: Sequence[Command], *kinds: Any, within_s: float = math.inf) -> list[Any]:
        """`kinds`: of answers for which a command is sent again."""
        until = min(self._until, time.monotonic() + min(self._timeout_s, within_s))
        try:
            if self.is_given_up:  # the driver would connect again
                raise redis.ConnectionError
            answers = await self._ask(commands)
            await settle(commands, answers, until, self._ask, self._sleep, *kinds)
        except BaseException as error:
            self.give_up()
            if isinstance(error, redis.RedisError | OSError):
                raise translate(error, self.name) from error
            raise
        return [translate(one, self.name) if isinstance(one, Exception) else one for one in answers]

    async def read(self, commands: Sequence[Command], *kinds: Any) -> list[Any]:
        """`kinds`: of answers for which a command is sent again."""
        for answer in (answers := await self.answers(commands, *kinds)):
            if isinstance(answer, Exception):
                raise answer
        return answers

    async def nodes(self) -> Sequence[Alone]:
        if (cluster := self._cluster) is None:
            return [self]
        asks = [partial(cluster.of_node, place) for place in await cluster.primaries()]
        return [OneConnection(self.name, ask, self._sleep, self._timeout_s) for ask in asks]

    def give_up(self) -> None:
        self.is_given_up = True


class ConnectionAlone(OneConnection):
    """Of a connection that waits."""

    def __init__(
        self, connection: Connection, name: str, timeout_s: float = CALL_TIMEOUT_S, until: float = math.inf
    ) -> None:
        async def ask(commands: Sequence[Command]) -> list[Any]:
            send(connection, commands)
            return receive(connection, len(commands))

        cluster = connection if isinstance(connection, ClusterConnection) else None
        super().__init__(name, ask, pause, timeout_s, until, cluster)


async def pause(seconds: float) -> None:
    """For what `finish` runs: it waits in the calling thread."""
    time.sleep(seconds)


def finish(operation: Coroutine[Any, Any, T]) -> T:
    """Run an operation whose net never suspends, to its end. Raises what it raises."""
    try:
        operation.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    operation.close()
    raise ConfigurationError("awaits_other", operation=getattr(operation, "__qualname__", ""))


def receive(connection: Connection, count: int) -> list[Any]:
    """This many answers, errors of the server's among them."""
    replies: list[Any] = []
    for _ in range(count):
        try:
            replies.append(connection.read_response())
        except redis.ResponseError as error:
            replies.append(error)
    return replies


def send(connection: Connection, commands: Sequence[Command]) -> None:
    try:
        if len(commands) == 1:
            connection.send_command(*commands[0], check_health=False)
        else:
            connection.send_packed_command(connection.pack_commands(commands), check_health=False)
    except UnicodeEncodeError:  # hiredis packs strictly, and nothing was sent yet
        send(connection, [tuple(map(in_utf8, words)) for words in commands])


def in_utf8(word: Any) -> Any:
    """Text as bytes. Names of others that are not UTF-8 go back to the server as they came."""
    return word.encode("utf-8", "surrogateescape") if isinstance(word, str) else word
