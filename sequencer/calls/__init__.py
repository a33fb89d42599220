"""One typed function for each script, the request beside its reply; the scripts' texts; the Net that operations ask.

Not here: sending (`net`).
`source` reads the files of the scripts, once; all else is pure.
The rule: only this room knows the order of a script's arguments and the form of its reply.
"""

from .alerts import alert, alert_sent, mark_notified, pending_news
from .append import MAX_APPEND, REFUSALS, ItemOutcome, OnConflict, RelayBatch, append, append_batch
from .call import Call
from .claim import claim
from .examine import GroupFacts, find, inspect, repair
from .operate import (
    Ending,
    ParkedGroup,
    Redriving,
    Resumed,
    pause,
    purge,
    redrive,
    rerun,
    resume,
    resume_many,
    skip_gap,
    sweep,
    update,
    wake,
)
from .outage import outage
from .register import register, sync_shard
from .settle import Ack, ack, nack, renew, save_step
