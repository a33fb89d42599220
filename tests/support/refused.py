"""An error of ours by its code and fields: what it says is asked of the catalogue alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sequencer.errors import Coded
from sequencer.texts.refusals import refusal_text


@contextmanager
def refused(kind: type[Coded], code: str, /, **fields: Any) -> Iterator[pytest.ExceptionInfo[Any]]:
    """What is inside raises an error of this class and code, with these fields among its own, and has a text."""
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    assert (error.code, {name: error.fields.get(name) for name in fields}) == (code, fields)
    assert str(error).endswith(refusal_text(code, error.fields) or "?")
