"""Tries every command and script of ours for real, on a scratch lane: what a user may not do shows there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..calls.call import Call
from ..errors import SequencerError
from ..net.link import Link
from ..store.keys import index_key, lane_keys
from .rights import DENIED, SCRATCH, plain_commands, run_every_script, scratch_keys

_RIGHT = re.compile(r"'([\w|-]+)' command")


class Rights:
    """What a user may not do, as it shows while commands and scripts are tried."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.missing: dict[str, None] = {}
        self.errors: dict[str, None] = {}

    def try_command(self, pattern: str, *words: Any, told: str | None = None) -> None:
        """What is refused with the words `told` is told of elsewhere."""
        try:
            self._link.command(*words)
        except SequencerError as error:
            if told is None or told not in str(error):
                self._note(words[0], pattern, error)
            if words[0] in ("EXEC", "DISCARD"):
                self._link.close()  # its MULTI may still wait

    def run(self, pattern: str, call: Call[Any]) -> Any:
        """The script's result, or None."""
        try:
            return self._link.run_one(call)
        except SequencerError as error:
            self._note(f"script {call.script}", pattern, error)
            return None

    def _note(self, name: str, pattern: str, error: SequencerError) -> None:
        text, right = str(error), _RIGHT.search(str(error))
        if not DENIED.search(text):
            self.errors[f"{name}: {text}"] = None
        elif right or not name.startswith("script"):
            is_key = "access a key" in text or "access one of the keys" in text
            self.missing[pattern if is_key else f"+{right[1] if right else name}".lower()] = None
        else:
            self.errors[f"{name}: {text}"] = None


def try_rights(link: Link, namespace: str, queues: Sequence[str]) -> Rights:
    """Run everything on a scratch lane of each queue. Raises ServerUnavailable when the connection is lost."""
    rights, index = Rights(link), index_key(namespace)
    for queue in queues:
        keys = lane_keys(namespace, queue, SCRATCH)
        pattern = f"~{{{namespace}:{'*' if queue == SCRATCH else queue + ':*'}"
        for words in plain_commands(keys):
            rights.try_command(pattern, *words)
        for words in (("HGET", index, queue), ("HDEL", index, "")):  # no queue is named ""
            rights.try_command(f"~{index}", *words, told="WRONGTYPE")
        run_every_script(lambda call, pattern=pattern: rights.run(pattern, call), keys)  # type: ignore[misc]
        rights.try_command(pattern, "DEL", *scratch_keys(keys))
    return rights
