"""/metrics, /live and /ready of the dashboard: who may ask, and what they say while the server is away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from sequencer import Sequencer
from sequencer.web import Token, dashboard

LOOK = "l" * 24


@pytest.fixture
def http(seq: Sequencer) -> Iterator[TestClient]:
    app = dashboard(redis=seq.endpoint, namespace=seq.options.namespace, who=Token("o" * 24, look=LOOK))
    with TestClient(app) as client:
        yield client


def test_metrics_are_for_who_may_look(http: TestClient, seq: Sequencer) -> None:
    seq.append(1, group="g")
    assert http.get("/metrics").status_code == 401
    answer = http.get("/metrics", headers={"authorization": f"Bearer {LOOK}"})
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/plain")
    name = seq.options.namespace
    assert f'sequencer_backlog_messages{{namespace="{name}",queue="jobs"}} 1.0' in answer.text


def test_anybody_may_ask_whether_it_is_ready(http: TestClient) -> None:
    for path in ("/live", "/ready"):
        assert (http.get(path).status_code, http.get(path).text) == (200, "ok\n")


def test_it_lives_and_is_not_ready_while_the_server_is_away() -> None:
    with TestClient(dashboard(["jobs"], "redis://127.0.0.1:1", who=Token("o" * 24))) as http:
        assert http.get("/live").status_code == 200
        assert (http.get("/ready").status_code, "127.0.0.1" in http.get("/ready").text) == (503, False)
        metrics = http.get("/metrics", headers={"authorization": "Bearer " + "o" * 24})
    assert 'sequencer_queue_up{namespace="sequencer",queue="jobs"} 0.0' in metrics.text
