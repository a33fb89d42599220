"""One typed function for each script: the request beside its reply. Pure.

Not here: sending (`net`).
The rule: only this room knows the order of a script's arguments and the form of its reply.
"""

from .append import MAX_APPEND, REFUSALS, ItemOutcome, OnConflict, Outcome, append
from .call import Args, Call, now_text
from .claim import Claimed, Halted, LeasedGroup, claim, parse_claimed
from .examine import Checked, Facts, Found, find, inspect, repair
from .operate import (
    MAX_RESUME,
    Ending,
    ParkedGroup,
    Redriving,
    Resumed,
    Resuming,
    SweptLane,
    pause,
    purge,
    redrive,
    resume,
    resume_many,
    revise,
    skip_gap,
    sweep,
    wake,
)
from .outage import Ended, Waits, outage
from .register import Adopted, adopt, adopt_old, register, unregister, woken
from .settle import Ack, Acked, HandlerRun, Nack, Nacked, Note, Noted, ack, nack, note, renew

__all__ = [
    "MAX_APPEND",
    "MAX_RESUME",
    "REFUSALS",
    "Ack",
    "Acked",
    "Adopted",
    "Args",
    "Call",
    "Checked",
    "Claimed",
    "Ended",
    "Ending",
    "Facts",
    "Found",
    "Halted",
    "HandlerRun",
    "ItemOutcome",
    "LeasedGroup",
    "Nack",
    "Nacked",
    "Note",
    "Noted",
    "OnConflict",
    "Outcome",
    "ParkedGroup",
    "Redriving",
    "Resumed",
    "Resuming",
    "SweptLane",
    "Waits",
    "ack",
    "adopt",
    "adopt_old",
    "append",
    "claim",
    "find",
    "inspect",
    "nack",
    "note",
    "now_text",
    "outage",
    "parse_claimed",
    "pause",
    "purge",
    "redrive",
    "register",
    "renew",
    "repair",
    "resume",
    "resume_many",
    "revise",
    "skip_gap",
    "sweep",
    "unregister",
    "wake",
    "woken",
]
