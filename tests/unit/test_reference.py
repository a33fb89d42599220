"""The references in docs/ are what `.ci/reference.py` writes."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from sequencer.settings.options import QueueOptions

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / ".ci" / "reference.py"))


def test_the_reference_has_every_option_as_it_is_declared() -> None:
    text = SCRIPT["reference"]()
    assert all(f"| `{name}` |" in text for name in ("max_attempts", "dedup_window", "handler_timeout", "n", "parked"))
    assert QueueOptions.__dataclass_fields__["on_failure"].metadata["option"]["help"] in text


@pytest.mark.parametrize("page", SCRIPT["PAGES"])
def test_a_page_has_what_is_declared(page: str) -> None:
    text = (ROOT / page).read_text()
    assert SCRIPT["written"](text, SCRIPT["PAGES"][page]()) == text, "run: python .ci/reference.py"
