"""The reference of options in the documentation is what `.ci/reference.py` writes."""

from __future__ import annotations

import runpy
from pathlib import Path

from sequencer.settings.options import QueueOptions

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "configuration.md"


def test_the_page_has_every_option_as_it_is_declared() -> None:
    script = runpy.run_path(str(ROOT / ".ci" / "reference.py"))
    text = script["reference"]()
    assert all(f"| `{name}` |" in text for name in ("max_attempts", "dedup_window", "handler_timeout", "n", "parked"))
    assert QueueOptions.__dataclass_fields__["on_failure"].metadata["option"]["help"] in text
    if PAGE.exists():
        assert script["written"](PAGE.read_text()) == PAGE.read_text(), (
            "run: python .ci/reference.py docs/configuration.md"
        )
