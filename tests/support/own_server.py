"""Queue `q` on a server of the test's own, which the fixture `admin` of the server tests leads to."""

from __future__ import annotations

from typing import Any

from sequencer import Sequencer
from sequencer.net.link import Link


def client(admin: Link, **options: Any) -> Sequencer:
    return Sequencer("q", str(admin.endpoint.url), **options)
