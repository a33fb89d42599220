"""One typed function for each script, the request beside its reply; the scripts' texts; the Net that operations ask.

Not here: sending (`net`).
`source` reads the files of the scripts, once; all else is pure.
The rule: only this room knows the order of a script's arguments and the form of its reply.
"""

from .alarms import AlarmTimes, Condition, Grant, Untold, UntoldGroup, What, alarm, alarm_sent, told, untold
from .append import MAX_APPEND, REFUSALS, ItemOutcome, OnConflict, Outcome, append
from .call import Args, Call, now_text
from .claim import Claimed, Halted, LeasedGroup, claim, parse_claimed
from .examine import Checked, Found, GroupFacts, find, inspect, repair
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
from .register import Adopted, adopt, register, unregister, woken
from .settle import Ack, Acked, HandlerRun, Nack, Nacked, Note, Noted, ack, nack, note, renew

__all__ = [
    "MAX_APPEND",
    "MAX_RESUME",
    "REFUSALS",
    "Ack",
    "Acked",
    "Adopted",
    "AlarmTimes",
    "Args",
    "Call",
    "Checked",
    "Claimed",
    "Condition",
    "Ended",
    "Ending",
    "Found",
    "Grant",
    "GroupFacts",
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
    "Untold",
    "UntoldGroup",
    "Waits",
    "What",
    "ack",
    "adopt",
    "alarm",
    "alarm_sent",
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
    "told",
    "unregister",
    "untold",
    "wake",
    "woken",
]
