"""What may be sent again after a failure, how often, and whether it may have run by then. Pure: every net asks here.

| what failed               | calls, all repeatable        | other calls           |
|---------------------------|------------------------------|-----------------------|
| no connection was made    | again, `ATTEMPTS` in all     | said, as not sent     |
| lost after the sending    | again; then on a repeat      | said, as maybe sent   |
| the server loads its data | again, as not sent           | said, as not sent     |
| it can't for now          | again, `ATTEMPTS` in all     | said                  |
| its generation is another | again, by the new one        | again, by the new one |
| anything else             | said                         | said                  |

Plain commands only read: what was lost is sent once more.

What a link asks of each fresh connection before all else is asked once more, on another, where that is lost.

"It can't for now" is an answer that is ServerUnavailable: a replica, or a server that can't write to its disk. Such an
answer says itself whether others of the same batch may have run.

WAIT speaks of what its own connection wrote. So a repeat, on another connection, asks about the first attempt only
where it writes too: each append does, and of a saved step the next one is asked about (drain/steps/runner.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from ..calls.call import Call
from ..errors import SequencerError, ServerUnavailable
from .refusals import translate

ATTEMPTS = 3
"""How often a repeatable call is sent before its outcome is given up as unknown."""
RETRY_DELAY_S = 0.05
"""Before it is sent again."""
ROUNDS = 12
"""How often a call whose generation was another by then is sent by the generation that was found."""


class Repeats:
    """One batch that failed at least once."""

    __slots__ = ("_left", "maybe_sent")

    def __init__(self, calls: Sequence[Call[Any]]) -> None:
        self._left = ATTEMPTS if all(call.repeatable for call in calls) else 1
        self.maybe_sent = False
        """Whether an attempt that failed may have been carried out: then the next one is a repeat."""

    def failed(self, error: BaseException, name: str, *, is_sent: bool, is_over: bool = False) -> SequencerError | None:
        """What to raise after one more try failed, also when its time `is_over`; None to send it again, on another."""
        self._left -= 1
        if isinstance(error, ServerUnavailable):
            failure: SequencerError = error
            self.maybe_sent = self.maybe_sent or error.maybe_sent
        else:
            failure = translate(error, name)
            # A server that loads its data has carried out nothing; redis-py closes the connection then.
            self.maybe_sent = self.maybe_sent or (is_sent and not isinstance(error, redis.BusyLoadingError))
        if isinstance(failure, ServerUnavailable):
            if self._left and not is_over:
                return None
            failure.maybe_sent = self.maybe_sent
        return failure
