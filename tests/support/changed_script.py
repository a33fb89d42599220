"""A script with another text: a negative control of the library, for tests that have to notice it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sequencer.calls import source as sources
from sequencer.testing import wire


@contextmanager
def changed_script(name: str, old: str, new: str) -> Iterator[None]:
    """The library with another text in one of its scripts."""
    real = sources.script_source
    assert old in real(name), f"{name}.lua has no {old!r} any more; change this control"

    def source(script: str) -> str:
        text = real(script)
        return text.replace(old, new) if script == name else text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "script_source", source)
        _forget()
        try:
            yield
        finally:
            patch.undo()
            _forget()


def _forget() -> None:
    sources.script_sha.cache_clear()
    wire.script_names.cache_clear()
