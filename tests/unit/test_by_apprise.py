"""What apprise sends, by its JSON webhook: success, failures, time limits; and that what it logs is not shown."""

from __future__ import annotations

import json
import logging
import threading
from types import SimpleNamespace
from typing import Any

import apprise  # noqa: F401 - loaded before any test, as none counts the time of that
import pytest

from sequencer.processes.alerts.notice import DeliveryFailed
from sequencer.processes.alerts.targets import ByApprise, nothing_logged
from sequencer.testing import wait_until

from ..support.hook_server import HookServer, Mode, hook_server
from ..support.notices import NOTICE, notice

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
"""A module of Python that apprise imports, before 3.13."""
CANARY = "canary-7f3a"
SHORT_S, LONG_S = 0.5, 30.0


def by_apprise(server: HookServer, timeout_s: float = LONG_S) -> ByApprise:
    url = f"json://ann:{CANARY}@{server.place}/{CANARY}"
    return ByApprise(name="ops", url=url, timeout_s=timeout_s)


def sent(**changes: Any) -> dict[str, Any]:
    with hook_server() as server:
        by_apprise(server).send(notice(**changes))
    (request,) = server.requests
    return dict(request.json())


def test_title_and_lines_are_sent_with_the_type_of_the_notice() -> None:
    title, *lines = NOTICE.lines
    said = sent()
    assert (said["title"], said["message"].splitlines(), said["type"]) == (title, lines, "failure")
    assert [sent(what=what)["type"] for what in ("resolved", "test")] == ["success", "info"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["500", "close", "hang"])
def test_what_apprise_says_is_believed_and_what_it_logs_is_dropped(
    mode: Mode, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with hook_server(mode) as server:
        target = by_apprise(server, SHORT_S if mode == "hang" else LONG_S)
        with pytest.raises(DeliveryFailed, match=r"^apprise says that it was not taken$"):
            target.send(NOTICE)
        wait_until(lambda: server.requests, LONG_S, "it came")
    for shown in (repr(target), caplog.text, *capfd.readouterr()):
        assert CANARY not in shown


def test_a_url_that_apprise_does_not_take_is_told_without_it(caplog: pytest.LogCaptureFixture) -> None:
    for url in (f"nonsense://{CANARY}", f"slack://{CANARY}"):
        with pytest.raises(DeliveryFailed, match=r"^apprise does not take its url") as caught:
            ByApprise(name="ops", url=url, timeout_s=LONG_S).send(NOTICE)
        assert CANARY not in f"{caught.value}{caplog.text}"


def test_an_incident_of_pagerduty_is_opened_and_resolved_by_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[dict[str, Any]] = []

    def post(url: str, data: str, **_: object) -> SimpleNamespace:
        posted.append(json.loads(data))
        return SimpleNamespace(status_code=202, content=b"")

    monkeypatch.setattr("requests.post", post)
    target = ByApprise(name="ops", url=f"pagerduty://{CANARY}@{CANARY}", timeout_s=LONG_S)
    for told in (
        NOTICE,
        notice(what="news", text="5 groups are parked"),
        notice(what="resolved"),
        notice(incident="b"),
    ):
        target.send(told)
    assert [one["event_action"] for one in posted] == ["trigger", "trigger", "resolve", "trigger"]
    first, *same, other = [one["dedup_key"] for one in posted]
    assert same == [first, first] != [other, other]


def test_what_other_threads_log_meanwhile_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("urllib3.connectionpool")
    with nothing_logged():
        log.warning("mine %s", CANARY)
        other = threading.Thread(target=log.warning, args=("theirs",))
        other.start()
        other.join()
    log.warning("after")
    assert caplog.messages == ["theirs", "after"]
