"""What a `FaultProxy` does to a request or its reply, by kind:

request delayed    it waits for `seconds`, and with it all behind it on its connection
request dropped    neither it nor anything after it on this connection is carried out or answered
request reset      the connection is closed instead
request late       the same, and it is carried out after `seconds`, when the client has connected again
request repeated   it is carried out twice, the second time after `seconds`
reply dropped      it is carried out; neither it nor anything after it on this connection is answered
reply lost         it is carried out, and the connection closed instead of an answer
reply cut          so, with the first half of the answer
reply trickled     the answer takes `seconds`, byte by byte where it is short
black hole         for `seconds`, connections are accepted, and nothing is carried out or answered, not even what
                   was carried out before; a connection that it met is closed when it ends
error NAME         it is not carried out, and answered with an error of the server (see ERRORS)
"""

from __future__ import annotations

from dataclasses import dataclass

from .frames import ERRORS

SHAPES = (
    "request delayed",
    "request dropped",
    "request reset",
    "request late",
    "request repeated",
    "reply dropped",
    "reply lost",
    "reply cut",
    "reply trickled",
    "black hole",
)
KINDS = (*SHAPES, *[f"error {name}" for name in ERRORS])
TRANSACTION = frozenset({"MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH"})
ALONE = frozenset({"request late", "request repeated"})
"""What can be done to a command only outside of a transaction."""


@dataclass(slots=True, eq=False)
class Fault:
    """A rule of a `FaultProxy`: made by its `add`."""

    kind: str
    on: frozenset[str]
    times: int | None
    """How many more requests it meets; None for no limit."""
    seconds: float
    chance: float
    who: str
    ends: float

    def fits(self, name: str, who: str, now: float, *, in_multi: bool, is_sha: bool) -> bool:
        """Whether the fault may meet this request: in a transaction or not, a script by its digest or not."""
        if now >= self.ends or (self.on and name not in self.on) or (self.who and self.who != who):
            return False
        if self.kind in ALONE and (in_multi or name in TRANSACTION):
            return False
        if self.kind == "error NOSCRIPT":
            return is_sha
        return not (self.kind.startswith("error ") and name in TRANSACTION)
