"""What goes over a consumer's main link for a note. Pure."""

from __future__ import annotations

from ...calls.settle import note as note_call
from ..effects import Exchange, Note, SendAndWait
from ..held import Held
from ..inflight import InFlight
from .actions import UNCONFIRMED

AGAIN = -2
"""Of a note: it is to be sent once more. What went in front of it was refused, or nobody knows what replicas have."""


def note(effect: Note, held: Held, in_flight: InFlight, now: float) -> Exchange[int]:
    """Write a ledger, behind all that is to be told of its group; the answer of the script, or UNCONFIRMED where
    replicas did not confirm it. Raises SequencerError.

    What is in flight is awaited first: an acknowledgement of it that was refused is sent again in front. The note names
    the message before its own, so that nothing hangs on the order in which a server carries them out.
    """
    yield from in_flight.collect_all()
    held.settle()
    sending = held.outgoing(now=now)
    told = list(sending.calls) if sending else []
    entry = effect.group.note(effect.written, has_progressed=effect.has_progressed)
    calls = [*told, note_call(held.pending_acks.keys, entry)]
    results, is_repeat, confirmed = yield SendAndWait(calls, effect.wait)
    if sending:
        held.answered(sending, results[: len(told)], now, is_repeat=is_repeat)
    code: int = results[-1]
    if code == 0:
        held.lose(effect.group)
    if code == 1 and effect.wait:
        if is_repeat:  # the first attempt may have written it over another connection, and WAIT speaks of its own only
            return AGAIN
        if confirmed < effect.wait[0]:
            return UNCONFIRMED
    return code
