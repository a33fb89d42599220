"""Makes the commands that run a call: EVAL, which carries its script (`calls/source.py` has it), or EVALSHA."""

from __future__ import annotations

from functools import cache
from hashlib import sha1
from typing import Any

from ..calls import source
from ..calls.call import Call


@cache
def script_sha(name: str) -> str:
    return sha1(source.script_source(name).encode(), usedforsecurity=False).hexdigest()


def eval_command(call: Call[Any]) -> tuple[Any, ...]:
    """The call as an EVAL that carries its script.

    In MULTI/EXEC, for calls in order, in a caller's pipeline, and the first time on a connection.
    """
    return ("EVAL", source.script_source(call.script), len(call.keys), *call.keys, *call.args)


def evalsha_command(call: Call[Any]) -> tuple[Any, ...]:
    return ("EVALSHA", script_sha(call.script), len(call.keys), *call.keys, *call.args)


def known_command(call: Call[Any], known: set[str]) -> tuple[Any, ...]:
    """EVALSHA, but EVAL the first time on a connection, whose `known` scripts these are.

    After a restart or failover the server lacks the script, and one that is sent again alone runs after the other calls
    of its batch.
    """
    if call.script in known:
        return evalsha_command(call)
    known.add(call.script)
    return eval_command(call)
