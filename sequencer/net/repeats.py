"""What may be sent again after a failure, how often, and whether it may have run by then. Pure: every net asks here.

| what failed              | calls, all repeatable            | other calls           | plain commands            |
|--------------------------|----------------------------------|-----------------------|---------------------------|
| no connection was made   | again, `ATTEMPTS` in all            | said, as not sent     | said, as not sent         |
| lost after the sending   | again; from then on a repeat     | said, as maybe sent   | again, once               |
| the server loads its data| again, as not sent               | said, as not sent     | again, once               |
| it can't for now         | again, `ATTEMPTS` in all            | said                  | said                      |
| its generation is another     | again, by the new one            | again, by the new one | -                         |
| anything else            | said                             | said                  | said                      |

What a link asks of each fresh connection before all else is asked once more, on another, where that is lost.

"It can't for now" is an answer that is ServerUnavailable: a replica, or a server that can't write to its disk. Such an
answer says itself whether others of the same batch may have run.

WAIT speaks of what its own connection wrote. So a repeat, on another connection, asks about the first attempt only
where it
writes too: each append does, and of a note the next one is asked about (drain/steps/runner.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import redis

from ..calls.call import Call
from ..errors import SequencerError, ServerUnavailable
from .refusals import translate

ATTEMPTS = 3
"""How often a repeatable call is sent before its outcome is given up as unknown."""
RETRY_DELAY_S = 0.05
ROUNDS = 12
"""How often a call whose generation was another by then is sent by the generation that was found."""
_is_repeatable = attrgetter("repeatable")


class Repeats:
    """One batch that failed at least once."""

    __slots__ = ("_is_plain", "_left", "maybe_sent")

    def __init__(self, calls: Sequence[Call[Any]] | None) -> None:
        """For calls, or with None for plain commands that may be carried out twice."""
        self._is_plain = calls is None
        self._left = 2 if calls is None else ATTEMPTS if all(map(_is_repeatable, calls)) else 1
        self.maybe_sent = False
        """Whether an attempt that failed may have been carried out: then the next one is a repeat."""

    @property
    def delay_s(self) -> float:
        """How long to wait before it is sent again."""
        return 0.0 if self._is_plain else RETRY_DELAY_S

    def failed(self, error: BaseException, name: str, *, is_sent: bool, is_over: bool = False) -> SequencerError | None:
        """What to raise after one more try failed with this error, also when its time `is_over`; None to send it again
        on a fresh connection.
        """
        self._left -= 1
        if isinstance(error, ServerUnavailable):
            failure: SequencerError = error
            self.maybe_sent = self.maybe_sent or error.maybe_sent
        else:
            failure = translate(error, name)
            # A server that loads its data has carried out nothing; redis-py closes the connection then.
            self.maybe_sent = self.maybe_sent or (is_sent and not isinstance(error, redis.BusyLoadingError))
        may_help = failure is not error if self._is_plain else isinstance(failure, ServerUnavailable)
        if may_help and self._left and not is_over:
            return None
        if isinstance(failure, ServerUnavailable):
            failure.maybe_sent = self.maybe_sent
        return failure
