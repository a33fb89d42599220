"""What an operator changes in the dashboard: each verb acts on what was seen, and on nothing else."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from starlette.testclient import TestClient

from sequencer import Sequencer
from sequencer.queue.groups.many import PAGE
from sequencer.texts.changes import SAID
from sequencer.web import changes, dashboard
from sequencer.web.changes import VERBS
from tests.support.handling import Make, drain, fail

GROUP = ("7", "a b\n<b>")
LATER = {"delay": 3600}


class Browser:
    """Sends the forms of one queue, as a page of ours would."""

    def __init__(self, seq: Sequencer) -> None:
        app = dashboard(redis=seq.endpoint, namespace=seq.options.namespace, who=lambda _: "operate")
        self.http = TestClient(app, follow_redirects=False)
        self.http.headers["sec-fetch-site"] = "same-origin"

    def post(self, verb: str, typed: Any = None, **seen: Any) -> tuple[int, str]:
        """The status, and the word with which it leads back to a page."""
        answer = self.http.post(f"/q/jobs/{verb}?{urlencode(seen, doseq=True)}", data=typed)
        back = urlsplit(answer.headers.get("location", ""))
        if answer.status_code == 303:
            assert parse_qs(back.query).get("g", list(GROUP)) == list(GROUP)
            assert set(parse_qs(back.query)["said"]) < SAID.keys()
        return answer.status_code, parse_qs(back.query).get("said", [""])[0]


@pytest.fixture
def seq(make: Make) -> Sequencer:
    return make(max_attempts=1)


@pytest.fixture
def browser(seq: Sequencer) -> Browser:
    return Browser(seq)


def append(seq: Sequencer, *ids: str, group: Any = GROUP, **options: Any) -> None:
    for id in ids:
        seq.append({"id": id}, group=group, id=id, **options)


def park(seq: Sequencer, *ids: str, **options: Any) -> None:
    append(seq, *ids, **options)
    seq.consume(fail, until_empty=True)


def state(seq: Sequencer, id: str = "m1") -> Any:
    info = seq.get(GROUP, id)
    return info and info.state


def resumed(seq: Sequencer, browser: Browser) -> None:
    park(seq, "m1", "m2")
    assert browser.post("resume", g=GROUP, id="m1") == (303, "resume")
    assert browser.post("resume", g=GROUP, id="m1") == (303, "unchanged")
    assert drain(seq) == [{"id": "m1"}, {"id": "m2"}]


def skipped(seq: Sequencer, browser: Browser) -> None:
    park(seq, "m1", "m2")
    assert browser.post("skip", g=GROUP, id="m1") == (303, "skip")
    assert browser.post("skip", g=GROUP, id="m1")[0] == 409
    assert (state(seq), seq.count_dead()) == ("dead", 1)
    assert browser.post("redrive", g=GROUP, id="m1") == (303, "redrive")
    assert drain(seq) == [{"id": "m1"}, {"id": "m2"}]


def put_back(seq: Sequencer, browser: Browser) -> None:
    park(seq, "m1")
    seq.skip(GROUP, id="m1")
    assert browser.post("unskip", g=GROUP, id="m2")[0] == 409
    assert browser.post("unskip", g=GROUP, id="m1") == (303, "unskip")
    assert state(seq) == "due"


def paused(seq: Sequencer, browser: Browser) -> None:
    append(seq, "m1")
    for about in ({"g": GROUP}, {}):
        words = [browser.post(verb, **about)[1] for verb in ("pause", "pause", "unpause", "unpause")]
        assert words == ["pause", "unchanged", "unpause", "unchanged"]


def cancelled(seq: Sequencer, browser: Browser) -> None:
    append(seq, "m1")
    assert browser.post("cancel", g=GROUP, id="m1") == (303, "cancel")
    assert browser.post("cancel", g=GROUP, id="m1")[0] == 409
    assert state(seq) is None


def rescheduled(seq: Sequencer, browser: Browser) -> None:
    append(seq, "m1", **LATER)
    assert browser.post("reschedule", {"delay": "soon"}, g=GROUP, id="m1")[0] == 400
    assert state(seq) == "delayed"
    assert browser.post("reschedule", {"delay": "0"}, g=GROUP, id="m1") == (303, "reschedule")
    assert drain(seq) == [{"id": "m1"}]


def answered(seq: Sequencer, browser: Browser) -> None:
    ran = list[str]()

    def charge(message: Any, call: Any) -> None:
        ran.append("charge")
        if len(ran) == 1:
            raise ValueError("the provider did not answer")

    seq.step(name="charge", order=1, once=True)(charge)
    seq.step(name="ship", order=2, once=True)(lambda message, call: ran.append("ship"))
    append(seq, "m1")
    seq.consume(until_empty=True)
    seen = {"g": GROUP, "id": "m1", "step": "charge"}
    again, done = {"answer": "again", "result": ""}, {"answer": "done", "result": '{"paid": 3}'}
    assert browser.post("resume", g=GROUP, id="m1")[0] == 409
    assert browser.post("answer", again, **seen)[0] == 400
    assert browser.post("answer", again, **seen, attempt=7)[0] == 409
    assert browser.post("answer", {"answer": "", "result": ""}, **seen, attempt=1)[0] == 400
    assert browser.post("answer", {"answer": "done", "result": "{"}, **seen, attempt=1)[0] == 400
    assert browser.post("answer", done, **seen, attempt=1) == (303, "answer")
    found = seq.steps(GROUP, "m1")
    assert found is not None
    assert [(one.state, one.result, one.who) for one in found.steps if one.name == "charge"] == [
        ("done", {"paid": 3}, "operate")
    ]
    seq.consume(until_empty=True)
    assert ran == ["charge", "ship"]


def purged(seq: Sequencer, browser: Browser) -> None:
    park(seq, "m1")
    seq.skip(GROUP, dead_letter=True)
    assert browser.post("purge", g=GROUP)[0] == 400
    assert browser.post("purge", g=GROUP, id="m2")[0] == 409
    assert browser.post("purge", g=GROUP, id="m1") == (303, "purge")
    assert seq.count_dead() == 0


def many_purged(seq: Sequencer, browser: Browser) -> None:
    park(seq, "m1")
    seq.skip(GROUP, dead_letter=True)
    assert browser.post("purge-many", error="ValueError")[0] == 400
    assert browser.post("purge-many", {"chosen": "2"}, error="ValueError")[0] == 409
    assert browser.post("purge-many", {"chosen": "0"}, error="KeyError") == (303, "purge")
    assert seq.count_dead() == 1
    assert browser.post("purge-many", {"chosen": " 1 "}, error="ValueError") == (303, "purge")
    assert seq.count_dead() == 0


def redriven(seq: Sequencer, browser: Browser) -> None:
    park(seq, "m1")
    seq.skip(GROUP, dead_letter=True)
    assert browser.post("redrive", g=GROUP, id="m1") == (303, "redrive")
    assert drain(seq) == [{"id": "m1"}]


def many_redriven(seq: Sequencer, browser: Browser) -> None:
    park(seq, "m1")
    seq.skip(GROUP, dead_letter=True)
    assert browser.post("redrive-many", error="ValueError") == (303, "many")
    assert drain(seq) == [{"id": "m1"}]


def probed(seq: Sequencer, browser: Browser) -> None:
    append(seq, "m1")
    assert browser.post("probe") == (303, "unchanged")


def many_resumed(seq: Sequencer, browser: Browser) -> None:
    for number in range(60):
        append(seq, "m1", group=("n", number))
    seq.consume(fail, until_empty=True)
    assert browser.post("resume-many", error="ValueError") == (303, "many")
    assert seq.snapshot().parked == 0


def many_skipped(seq: Sequencer, browser: Browser) -> None:
    park(seq, "m1")
    assert browser.post("skip-many", chosen=2)[0] == 409
    assert seq.count_dead() == 0
    assert browser.post("skip-many", chosen=1) == (303, "many")
    assert (seq.count_dead(), seq.snapshot().parked) == (1, 0)


CASES = {
    "resume": resumed,
    "skip": skipped,
    "unskip": put_back,
    "pause": paused,
    "unpause": paused,
    "cancel": cancelled,
    "reschedule": rescheduled,
    "answer": answered,
    "purge": purged,
    "redrive": redriven,
    "probe": probed,
    "resume-many": many_resumed,
    "skip-many": many_skipped,
    "redrive-many": many_redriven,
    "purge-many": many_purged,
}


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_does_what_it_says(
    verb: str, seq: Sequencer, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    CASES[verb](seq, browser)
    logged = [record.__dict__ for record in caplog.records if record.__dict__.get("event") == "operator"]
    assert {one["who"] for one in logged} <= {"operate"}
    assert verb in {one["action"] for one in logged} or verb == "probe"


@pytest.mark.parametrize("verb", ["resume", "skip"])
@pytest.mark.parametrize("seen", [{"id": "m1"}, {}])
def test_another_head_than_the_one_that_was_seen_stays(
    verb: str, seen: dict[str, str], seq: Sequencer, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    """The negative control is the same call without an id."""
    park(seq, "m1", "m2")
    seq.skip(GROUP, id="m1")
    seq.consume(fail, until_empty=True)
    assert browser.post(verb, g=GROUP, **seen)[0] == (409 if seen else 400)
    assert (state(seq, "m2"), seq.explain(GROUP).head_id) == ("parked", "m2")
    assert not [record for record in caplog.records if record.__dict__.get("event") == "operator"]
    getattr(seq, verb)(GROUP)
    assert state(seq, "m2") != "parked"


def test_numbers_that_are_missing_are_skipped_as_they_were_seen(make: Make) -> None:
    seq = make(sequence=True, gap_timeout=0.01, on_gap="park")
    append(seq, "m1", score=1)
    append(seq, "m5", score=5)
    seen: list[str] = []
    seq.consume(lambda message: seen.append(message.id), until_empty=True)
    browser = Browser(seq)
    assert seq.explain(GROUP).reason == "gap"
    assert browser.post("skip", g=GROUP, first=3)[0] == 409
    assert browser.post("skip", g=GROUP, first=2) == (303, "skip")
    seq.consume(lambda message: seen.append(message.id), until_empty=True)
    assert seen == ["m1", "m5"]


def test_an_answer_for_several_steps_is_one_change(seq: Sequencer, browser: Browser) -> None:
    def unknown(message: Any, call: Any) -> None:
        raise ValueError("no answer")

    for name in ("charge", "refund"):
        seq.step(name=name, once=True)(unknown)
    append(seq, "m1")
    seq.consume(until_empty=True)
    page = browser.http.get(f"/q/jobs/group?{urlencode({'g': GROUP}, doseq=True)}").text
    assert (page.count('name="answer"'), page.count('name="result"')) == (2, 2)
    seen = {"step": ["charge", "refund"], "attempt": [1, 1]}
    assert browser.post("answer", {"answer": ["done", ""], "result": ["3", ""]}, g=GROUP, id="m1", **seen)[0] == 400
    typed = {"answer": ["done", "again"], "result": ["3", ""]}
    assert browser.post("answer", typed, g=GROUP, id="m1", **seen) == (303, "answer")


def test_many_take_several_requests_and_the_dry_run_shows_what_is_left(
    seq: Sequencer, browser: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(PAGE + 10):
        append(seq, "m1", group=("n", number))
    seq.consume(fail, until_empty=True)
    monkeypatch.setattr(changes, "BULK_S", -1)
    answer = browser.http.post("/q/jobs/resume-many?error=ValueError")
    assert answer.headers["location"] == "/q/jobs/many?said=partly&do=resume&error=ValueError"
    assert "Retry 10 groups" in browser.http.get(answer.headers["location"]).text
    assert browser.post("resume-many", error="ValueError") == (303, "many")
    assert [one.__dict__["count"] for one in caplog.records if one.__dict__.get("event") == "operator"] == [PAGE, 10]


@pytest.mark.parametrize(("body", "status"), [(b"x=" + b"y" * 200_000, 400), (b"\xff\x00=%zz&&=", 303)])
def test_an_odd_form_is_no_harm(body: bytes, status: int, seq: Sequencer, browser: Browser) -> None:
    append(seq, "m1")
    assert browser.http.post("/q/jobs/pause", content=body).status_code == status
    assert browser.http.post("/q/nothing/pause").status_code == 404
    assert browser.http.get("/q/jobs/pause").status_code in (404, 405)
