"""What an operator changes in the dashboard: each verb acts on what was seen, and on nothing else."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from sequencer import Sequencer
from sequencer.queue.groups.many import PAGE
from sequencer.texts.changes import SAID
from sequencer.web import changes
from sequencer.web.changes import VERBS
from tests.support.browse import browse
from tests.support.handling import Make, fail

GROUP = ("7", "a b\n<b>")
OF_GROUP: dict[str, Any] = {"g": GROUP}
SEEN, OTHER = OF_GROUP | {"id": "m1"}, OF_GROUP | {"id": "m0"}
OURS, THEIRS = {"error": "ValueError"}, {"error": "KeyError"}
PAUSED: list[Any] = [("paused", OF_GROUP), ("queue paused", {})]
Typed = dict[str, Any]
Answer = tuple[int | str, Any]
"""The status of a refusal, or the word of what was done; what state the message is in then."""


class Browser:
    """Sends the forms of one queue, as a page of ours would."""

    def __init__(self, seq: Sequencer) -> None:
        self.http = browse(seq)

    def post(self, verb: str, typed: Any = None, **seen: Any) -> int | str:
        """The word with which it leads back to a page, else the status."""
        answer = self.http.post(f"/q/jobs/{verb}?{urlencode(seen, doseq=True)}", data=typed)
        if answer.status_code != 303:
            return answer.status_code
        asked = parse_qs(urlsplit(answer.headers["location"]).query)
        assert asked.get("g", [*GROUP]) == [*GROUP]
        return asked["said"][0] if asked["said"][0] in SAID else ""


@pytest.fixture
def seq(make: Make) -> Sequencer:
    return make(max_attempts=1)


@pytest.fixture
def browser(seq: Sequencer) -> Browser:
    return Browser(seq)


def append(seq: Sequencer, id: str = "m1", group: Any = GROUP, **options: Any) -> None:
    seq.append({"id": id}, group=group, id=id, **options)


def logged(caplog: pytest.LogCaptureFixture, *names: str) -> list[list[Any]]:
    """Fields of the events of changes."""
    records = [record.__dict__ for record in caplog.records]
    return [[one[name] for name in names] for one in records if one.get("event") == "operator"]


CASES: list[tuple[str, str, Typed, Typed, Answer]] = [
    ("resume", "parked", {}, SEEN, ("resume", "due")),
    ("resume", "parked", {}, OTHER, (409, "parked")),
    ("resume", "parked", {}, OF_GROUP, (400, "parked")),
    ("resume", "due", {}, SEEN, ("unchanged", "due")),
    ("skip", "parked", {}, SEEN, ("skip", "dead")),
    ("skip", "parked", {}, OTHER, (409, "parked")),
    ("skip", "parked", {}, OF_GROUP, (400, "parked")),
    ("unskip", "skipped", {}, SEEN, ("unskip", "due")),
    ("unskip", "skipped", {}, OTHER, (409, "handled")),
    *(("pause", "due", {}, about, ("pause", "paused")) for _, about in PAUSED),
    *(("pause", state, {}, about, ("unchanged", "paused")) for state, about in PAUSED),
    *(("unpause", state, {}, about, ("unpause", "due")) for state, about in PAUSED),
    *(("unpause", "due", {}, about, ("unchanged", "due")) for _, about in PAUSED),
    ("cancel", "due", {}, SEEN, ("cancel", None)),
    ("cancel", "due", {}, OTHER, (409, "due")),
    ("reschedule", "delayed", {"delay": "0"}, SEEN, ("reschedule", "due")),
    ("reschedule", "delayed", {"delay": "soon"}, SEEN, (400, "delayed")),
    ("redrive", "dead", {}, SEEN, ("redrive", "due")),
    ("purge", "dead", {}, SEEN, ("purge", "handled")),
    ("purge", "dead", {}, OTHER, (409, "dead")),
    ("probe", "due", {}, {}, ("unchanged", "due")),
    ("resume-many", "parked", {}, OURS, ("many", "due")),
    ("resume-many", "parked", {}, THEIRS, ("many", "parked")),
    ("skip-many", "parked", {}, {"chosen": 1}, ("many", "dead")),
    ("skip-many", "parked", {}, {"chosen": 2}, (409, "parked")),
    ("redrive-many", "dead", {}, OURS, ("many", "due")),
    ("purge-many", "dead", {"chosen": " 1 "}, OURS, ("many", "handled")),
    ("purge-many", "dead", {"chosen": "0"}, THEIRS, ("many", "dead")),
    ("purge-many", "dead", {"chosen": "2"}, OURS, (409, "dead")),
    ("purge-many", "dead", {}, OURS, (400, "dead")),
]


@pytest.mark.parametrize("case", CASES)
def test_a_change_is_about_what_was_seen(
    case: Any, seq: Sequencer, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    verb, before, typed, seen, answer = case
    append(seq, delay=3600 if before == "delayed" else None)
    if before in ("parked", "dead", "skipped"):
        seq.consume(fail, until_empty=True)
    if before in ("dead", "skipped"):
        seq.skip(GROUP, dead_letter=before == "dead")
    if "paused" in before:
        seq.pause(GROUP if before == "paused" else None)
    said = browser.post(verb, typed, **seen)
    found = seq.get(GROUP, "m1")
    assert (said, found and found.state) == answer
    is_changed = said not in ("unchanged", 400, 409)
    assert logged(caplog, "action", "who") == ([[verb, "operate"]] if is_changed else [])


def test_each_verb_has_a_case() -> None:
    assert {"answer", *(verb for verb, *_ in CASES)} == VERBS.keys()


def test_numbers_that_are_missing_are_skipped_as_they_were_seen(make: Make) -> None:
    seq, seen = make(sequence=True, gap_timeout=0.01, on_gap="park"), list[str]()
    append(seq, "m1", score=1)
    append(seq, "m5", score=5)
    seq.consume(lambda message: seen.append(message.id), until_empty=True)
    browser = Browser(seq)
    assert [browser.post("skip", g=GROUP, first=first) for first in (3, 2)] == [409, "skip"]
    seq.consume(lambda message: seen.append(message.id), until_empty=True)
    assert seen == ["m1", "m5"]


def test_unresolved_steps_are_answered_in_one_form(seq: Sequencer, browser: Browser) -> None:
    ran = list[str]()

    def call_provider(name: str) -> None:
        ran.append(name)
        if ran.count(name) == 1:
            raise ValueError("the provider did not answer")

    for name in ("charge", "refund"):
        seq.step(name=name, once=True)(lambda message, call, name=name: call_provider(name))
    append(seq)
    seq.consume(until_empty=True)
    page = browser.http.get(f"/q/jobs/group?{urlencode(OF_GROUP, doseq=True)}").text
    assert (page.count('name="answer"'), page.count('name="result"')) == (2, 2)
    assert "sequencer resume" not in page.partition("<details")[0], "forms stand in place of commands"
    seen = SEEN | {"step": ["charge", "refund"], "attempt": [1, 1]}
    typed = {"answer": ["done", "again"], "result": ['{"paid": 3}', ""]}
    assert browser.post("resume", **SEEN) == 409
    for wrong in ({"answer": ["done", ""]}, {"result": ["{", ""]}, {"answer": ["done"]}):
        assert browser.post("answer", typed | wrong, **seen) == 400
    assert [browser.post("answer", typed, **seen | {"attempt": [one, 1]}) for one in ("x", 7)] == [400, 409]
    assert browser.post("answer", typed, **seen) == "answer"
    found = seq.steps(GROUP, "m1")
    assert found is not None
    assert next((one.state, one.result, one.who) for one in found.steps) == ("done", {"paid": 3}, "operate")
    seq.consume(until_empty=True)
    assert ran == ["charge", "refund", "refund"]


def test_many_take_several_requests_and_the_dry_run_shows_what_is_left(
    seq: Sequencer, browser: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(PAGE + 10):
        append(seq, group=("n", number))
    seq.consume(fail, until_empty=True)
    monkeypatch.setattr(changes, "BULK_S", -1)
    answer = browser.http.post("/q/jobs/resume-many?error=ValueError")
    assert answer.headers["location"] == "/q/jobs/many?do=resume&error=ValueError&said=many"
    assert "Retry 10 groups" in browser.http.get(answer.headers["location"]).text
    assert browser.post("resume-many", **OURS) == "many"
    assert logged(caplog, "count") == [[PAGE], [10]]


@pytest.mark.parametrize(("body", "status"), [(b"x=" + b"y" * 200_000, 400), (b"\xff\x00=%zz&&=", 303)])
def test_an_odd_form_is_no_harm(body: bytes, status: int, seq: Sequencer, browser: Browser) -> None:
    append(seq)
    assert browser.http.post("/q/jobs/pause", content=body).status_code == status
    assert browser.http.post("/q/nothing/pause").status_code == 404
    assert browser.http.get("/q/jobs/pause").status_code in (404, 405)
