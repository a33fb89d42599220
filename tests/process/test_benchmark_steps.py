"""Scenario `steps`, tiny."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.scenarios import steps
from sequencer import EmbeddedServer
from sequencer.net.link import Link

from ..support.smoke import smoke

pytestmark = pytest.mark.nightly


def test_steps(server: EmbeddedServer, link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = smoke(server, link, tmp_path, monkeypatch, "steps")
    found = {entry["case"]: entry for entry in result["summary"]}
    assert set(steps.DRAINS) <= set(found)
    notes = set(found) - set(steps.DRAINS)
    assert notes
    assert all(case.startswith("note") for case in notes)
    for entry in found.values():
        assert entry["valid_runs"] == entry["runs"] == 1
    for case in notes:
        assert found[case]["figures"]["notes in empty scripts"]["median"] > 0
