"""The search of the dashboard, over several queues."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from sequencer.web import dashboard, find
from tests.support.handling import Make, fail


@pytest.fixture
def http(make: Make) -> TestClient:
    jobs, mails = make("jobs", max_attempts=1), make("mails")
    jobs.append(1, group=("1002", "77"), id="m1")
    jobs.append(1, group="1002", id="e5")
    jobs.append(1, group="dead", id="d1")
    jobs.consume(lambda message: fail(message) if message.id == "d1" else None, until_empty=True)
    jobs.skip("dead", dead_letter=True)
    jobs.append(1, group=("1002", "77"), id="m2")
    for seq in (jobs, mails):
        seq.append(1, group="both", id="x")
    app = dashboard(redis=jobs.endpoint, namespace=jobs.options.namespace, who=lambda _: "look")
    return TestClient(app, follow_redirects=False)


@pytest.mark.parametrize(
    ("asked", "location"),
    [
        ("1002 77", "/q/jobs/group?g=1002&g=77"),
        ('["1002", 77]', "/q/jobs/group?g=1002&g=77"),
        ('["1002", "77"] m2', "/q/jobs/message?g=1002&g=77&id=m2"),
        ("1002 77 m2", "/q/jobs/message?g=1002&g=77&id=m2"),
        ("dead", "/q/jobs/message?g=dead&id=d1"),
        ("dead d1", "/q/jobs/message?g=dead&id=d1"),
        ("both", None),
        ("m2", None),
        ("x" * 600, None),
        ("\u202e\x00", None),
        ("", None),
    ],
)
def test_one_hit_leads_there_and_several_are_a_page(http: TestClient, asked: str, location: str | None) -> None:
    found = http.get("/find", params={"q": asked})
    assert (found.status_code, found.headers.get("location")) == (303 if location else 200, location)
    if asked == "both":
        assert all(f'href="/q/{name}/group?g=both"' in found.text for name in ("jobs", "mails"))


def test_an_id_alone_is_searched_in_one_queue_and_by_one_at_a_time(http: TestClient) -> None:
    assert 'href="/q/jobs/find?q=m2"' in http.get("/find", params={"q": "m2"}).text
    assert 'href="/q/jobs/message?g=1002&amp;g=77&amp;id=m2"' in http.get("/q/jobs/find?q=m2").text
    with find._walking:
        assert http.get("/q/jobs/find?q=m2").status_code == 409
