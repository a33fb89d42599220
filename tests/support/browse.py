"""A browser, or a program, before the dashboard of a test's queues."""

from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient

from sequencer import Sequencer
from sequencer.web import dashboard


def browse(seq: Sequencer, who: Any = "operate", **options: Any) -> TestClient:
    """`who` is a role, or what the dashboard takes. It follows no redirect, and sends what a page of ours would."""
    given: dict[str, Any] = {"redis": seq.endpoint, "namespace": seq.options.namespace} | options
    app = dashboard(who=who if callable(who) else lambda _: who, **given)
    return TestClient(app, headers={"sec-fetch-site": "same-origin"}, follow_redirects=False)
