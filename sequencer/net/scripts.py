"""Makes the commands that run a call: EVAL, which carries its script (`calls/source.py` has it), or EVALSHA."""

from __future__ import annotations

from functools import cache
from hashlib import sha1
from typing import Any

from ..calls import source
from ..calls.call import Call
from ..calls.source import eval_command as eval_command


@cache
def script_sha(name: str) -> str:
    return sha1(source.script_source(name).encode(), usedforsecurity=False).hexdigest()


def evalsha_command(call: Call[Any], route: str = "") -> tuple[Any, ...]:
    return ("EVALSHA", script_sha(call.script), len(call.keys), *call.keys, *call.args, route)


def known_command(call: Call[Any], known: set[str], route: str = "") -> tuple[Any, ...]:
    """EVALSHA, but EVAL the first time on a connection, whose `known` scripts these are.

    After a restart or failover the server lacks the script, and one that is sent again alone runs after the other calls
    of its batch.
    """
    if call.script in known:
        return evalsha_command(call, route)
    known.add(call.script)
    return eval_command(call, route)
