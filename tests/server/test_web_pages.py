"""The dashboard's pages: each answers, shows the texts of others as texts, finds what is asked for, changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from a2wsgi import ASGIMiddleware
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from werkzeug.exceptions import NotFound
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from sequencer import Message, Sequencer
from sequencer.client import QueueClients
from sequencer.errors import ServerUnavailable
from sequencer.net.link import Link
from sequencer.texts.words import CONTROL
from sequencer.web import Token, dashboard, find, rendering
from sequencer.web import sampler as sampling
from sequencer.web.charts import rates
from sequencer.web.sampler import PERIOD_S, SHARE, Rates, Sampler
from tests.support.browse import browse
from tests.support.command_counts import commands_of
from tests.support.handling import Make, fail
from tests.support.proxy.fault_proxy import FaultProxy
from tests.support.said import dump

ODD = "".join(
    (
        '<script>alert(1)</script><img src=x onerror="alert(1)">',
        """"'><b onmouseover='alert(1)'>""",
        "\u202egnp.exe\u2066  two  spaces {{ 7777 * 7777 }}",
        "& 漢字 🎉 %2F ? # ;a\x00b\r\nc\x1b[2J\x85",
    )
)


class Read(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.names = "", set[str]()
        self.links, self.sources, self.actions = list[str](), list[str](), list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.names |= found.keys()
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag in ("script", "img", "link"):
            self.sources.append(found.get("src", found.get("href", "")))
        elif tag == "form" and found.get("method") == "post":
            self.actions.append(found["action"])

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def scene(make: Make) -> Sequencer:
    """Three parked groups, a dead letter, one that was skipped, a delayed and a due message; one that was handled."""
    seq = make(max_attempts=1, history_window="1h", history_bodies=True)

    def handle(message: Message) -> None:
        if message.body["is_bad"]:
            raise ValueError(ODD) if ODD in message.group else KeyError("amount")

    for name in (*"abcde", ODD):
        group, id = ((ODD, ODD), ODD) if name == ODD else ((name, "1"), f"{name}1")
        seq.append({"is_bad": name != "e", "secret": f"geheim {ODD}"}, group=group, id=id, headers={"h": ODD})
    seq.consume(handle, until_empty=True)
    seq.skip(("c", 1), dead_letter=True)
    seq.skip(("d", 1))
    seq.append({"n": 1}, group="later", id="l1", delay="1h")
    seq.append({"n": 1}, group="due", id="u1")
    return seq


def crawled(http: TestClient, *paths: str) -> Iterator[tuple[str, str]]:
    """These pages and all to which they lead, as paths and texts."""
    seen, todo = set[str](), [*paths]
    while todo:
        seen.add(path := todo.pop())
        answer = http.get(path, follow_redirects=True)
        assert (path, answer.status_code) == (path, 200)
        yield path, answer.text
        todo += {one for one in Read(answer.text).links if one and one[0] != "#"} - {*seen, *todo}


@pytest.mark.parametrize("role", ["operate", "look"])
def test_each_page_answers_shows_texts_as_texts_and_changes_no_key(scene: Sequencer, link: Link, role: str) -> None:
    check_pages(scene, link, role)


@pytest.mark.parametrize("broken", [{"autoescape": False}, {"finalize": lambda value: value}])
def test_pages_that_escape_nothing_or_show_control_characters_are_found(
    scene: Sequencer, link: Link, monkeypatch: pytest.MonkeyPatch, broken: dict[str, Any]
) -> None:
    monkeypatch.setattr(rendering, "TEMPLATES", rendering.TEMPLATES.overlay(**broken))
    with pytest.raises(AssertionError, match="/q/jobs"):
        check_pages(scene, link, "operate")


def check_pages(scene: Sequencer, link: Link, role: str) -> None:
    before, seen = dump(link), Counter[str]()
    for path, text in crawled(browse(scene, role), "/", "/find?q=x", "/metrics", "/live", "/ready"):
        seen[urlsplit(path).path] += 1
        page = Read(text)
        assert not [name for name in page.names if name.startswith("on") or name == "style"], path
        assert all(one.startswith("/static/") for one in page.sources), path
        assert not CONTROL.search(text.replace("\n", "")), path
        assert "60481729" not in page.text, "nothing is evaluated"
        assert bool(page.actions) <= (role == "operate"), path
        assert ("geheim" in page.text) <= (role == "operate"), path
        for one in page.links + page.actions:
            asked = parse_qs(urlsplit(one).query, keep_blank_values=True)
            assert urlsplit(one).netloc == "", path
            assert ODD not in "".join(asked.get("g", [])) or asked["g"] == [ODD, ODD], "a name is the same on its way"
    assert dump(link) == before
    assert "geheim" in browse(scene, "look", shows_bodies=True).get("/q/jobs/group?g=a&g=1").text
    names = {f"/q/jobs/{name}" for name in ("", "groups", "dead", "history", "group", "message")}
    assert names | ({"/q/jobs/many"} if role == "operate" else set()) <= {*seen}


def test_what_stands_still_is_shown_by_error_with_one_example(scene: Sequencer) -> None:
    page = Read(browse(scene).get("/q/jobs/").text)
    assert "3 parked, 1 due, 1 waiting" in page.text
    assert rates([Rates(0, 0, 0), Rates(2, 4, 2)], 100, 10).count("polyline") == 2
    assert scene.explain(("a", 1)).sentence in page.text
    retry = [parse_qs(urlsplit(one).query) for one in page.actions if "/resume" in one]
    assert (len(retry), retry[0]) == (2, {"g": ["a", "1"], "id": ["a1"]}), "one of each error"
    assert "/q/jobs/many?do=resume&error=KeyError" in page.links


def test_what_is_not_there(scene: Sequencer, make: Make, link: Link) -> None:
    http, other = browse(scene), browse(scene, queues=["other"])
    paths = ("/q/nope/", "/x", "/q/jobs/message?g=a&id=zz", "/q/jobs/group", "/q/jobs/many?do=delete")
    assert [http.get(path).status_code for path in paths] == [404] * 5
    assert [http.get(f"/q/jobs/groups?{asked}=nope").status_code for asked in ("state", "after")] == [400] * 2
    assert (other.get("/q/jobs/").status_code, "/q/other/" in Read(other.get("/").text).links) == (404, True)
    make().delete()
    make(shards=2).append(1, group="b")  # another queue of this name
    assert "s-due" in [http.get("/q/jobs/group?g=b") for _ in range(2)][-1].text
    make().delete()
    assert [http.get("/q/jobs/").status_code for _ in range(2)][-1] in (200, 404)
    assert not [key for key in link.command("KEYS", "*") if b":jobs:" in key], "whoever looks does not bring it back"


def test_many_tabs_ask_the_server_no_more_than_one(
    scene: Sequencer, namespace: str, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "FEW", 0)  # so the backlog is counted once, and kept
    now = [100.0]
    sampler = Sampler(QueueClients(None, scene.endpoint, namespace), lambda: now[0])
    for after_s, is_asked in ((0, True), (2, True), (0, False), (1.9, False)):
        now[0] += after_s
        asked = commands_of(link, lambda: [sampler.overview() for _ in range(10)]).total()
        assert 5 < asked < 100 if is_asked else asked == 0
    assert [one.info and one.info.backlog for one in sampler.overview().queues] == [5]
    sampler.changed()
    assert commands_of(link, sampler.overview).total() > 5, "whoever changed something sees it at once"
    browser, path = browse(scene), "/q/jobs/group?g=a%26g%3D1"
    first = commands_of(link, lambda: browser.get(path)).total()
    assert 2 * first > commands_of(link, lambda: [browser.get(path) for _ in range(20)]).total()


@pytest.mark.parametrize(("is_away", "seconds"), [(False, SHARE + 1.0), (True, PERIOD_S + 1.0)])
def test_a_slow_snapshot_is_taken_less_often(scene: Sequencer, namespace: str, is_away: bool, seconds: float) -> None:
    now, looks = [100.0], list[float]()

    class Slow(QueueClients):
        def names(self) -> list[str]:
            looks.append(now[0])
            now[0] += 1
            if is_away:
                raise ServerUnavailable
            return super().names()

    sampler = Sampler(Slow(None, scene.endpoint, namespace), lambda: now[0])
    for _ in range(100):
        sampler.overview()
        now[0] += 1
    assert {after - before for before, after in pairwise(looks)} == {seconds}


def test_while_the_server_is_away_the_last_numbers_stay(scene: Sequencer, proxy: FaultProxy) -> None:
    http = browse(scene, Token("o" * 24), redis=proxy.url)
    assert (http.get("/metrics").status_code, http.get("/live").text, http.get("/ready").text) == (401, "ok\n", "ok\n")
    http.headers["authorization"] = f"Bearer {'o' * 24}"
    assert http.get("/q/jobs/").status_code == 200
    assert 'queue="jobs"} 5.0' in http.get("/metrics").text
    proxy.close()
    http.app.state.sampler.changed()  # type: ignore[attr-defined]
    answers = [http.get(path) for path in ("/", "/q/jobs/", "/q/jobs/groups", "/live", "/ready", "/metrics")]
    assert [one.status_code for one in answers] == [200, 503, 503, 200, 503, 200]
    assert "/q/jobs/" in Read(answers[0].text).links
    assert proxy.url not in answers[4].text


SEARCHES = {
    "1002 'a b'": "group?g=1002&g=a+b",
    '["1002", "a b"]': "group?g=1002&g=a+b",
    '["1002", "a b"] m2': "message?g=1002&g=a+b&id=m2",
    "1002 'a b' m2": "message?g=1002&g=a+b&id=m2",
    "1002": "group?g=1002",
    "it's": "group?g=it%27s",
    "dead": "message?g=dead&id=d1",
    "dead d1": "message?g=dead&id=d1",
    **dict.fromkeys(("both", "m2", "x" * 600, "[" * 1900, "[]", "\u202e\x00", " ", "")),
}
"""What was typed, and where the only hit is."""


def test_one_hit_leads_there_several_are_a_page_and_an_id_alone_is_searched_in_one_queue(make: Make) -> None:
    jobs, mails = make("jobs", max_attempts=1), make("mails")
    jobs.append(1, group="dead", id="d1")
    jobs.consume(fail, until_empty=True)
    jobs.skip("dead", dead_letter=True)
    for group, id in ((("1002", "a b"), "m2"), ("1002", "e5"), ("it's", "i1"), ("both", "x")):
        jobs.append(1, group=group, id=id)
    mails.append(1, group="both", id="x")
    http = browse(jobs, "look")
    for typed, location in SEARCHES.items():
        found = http.get("/find", params={"q": typed})
        assert found.headers.get("location") == (location and f"/q/jobs/{location}"), typed
        assert found.status_code == (303 if location else 200), typed
    both, id_alone, walked = (
        Read(http.get(f"/{path}").text).links for path in ("find?q=both", "find?q=m2", "q/jobs/find?q=m2")
    )
    assert {"/q/jobs/group?g=both", "/q/mails/group?g=both"} <= {*both}
    assert "/q/jobs/find?q=m2" in id_alone
    assert "/q/jobs/message?g=1002&g=a+b&id=m2" in walked
    with find._walking:
        assert http.get("/q/jobs/find?q=m2").status_code == 409, "one at a time"


PREFIX, BASE = "/ops/sequencer", "http://127.0.0.1:8080"


def under_asgi(app: Any) -> httpx2.Client:
    return TestClient(Starlette(routes=[Mount(PREFIX, app)]), BASE, follow_redirects=False)


def under_wsgi(app: Any) -> httpx2.Client:
    inner: Any = ASGIMiddleware(app)
    outer = DispatcherMiddleware(NotFound(), {PREFIX: inner})
    return httpx2.Client(transport=httpx2.WSGITransport(app=outer), base_url=BASE)


@pytest.mark.parametrize("mount", [under_asgi, under_wsgi])
def test_pages_links_and_changes_stay_under_the_prefix(mount: Any, scene: Sequencer) -> None:
    """Four frameworks are run by the blocks of docs/dashboard.md."""
    http = mount(dashboard(redis=scene.endpoint, namespace=scene.options.namespace, who=Token("o" * 24)))
    path = f"{PREFIX}/q/jobs/group?g=a&g=1"
    assert http.get(f"{PREFIX}/").status_code == 401
    opened = http.get(f"{path}&token={'o' * 24}")
    assert (opened.status_code, opened.headers["location"]) == (303, path)
    assert f"Path={PREFIX}" in opened.headers["set-cookie"]
    page = Read(http.get(path).text)
    links = [one for one in page.links + page.sources if one and one[0] != "#"]
    assert all(one.startswith(f"{PREFIX}/") for one in links + page.actions)
    assert {http.get(one).status_code for one in links} == {200}
    changed = http.post(f"{PREFIX}/q/jobs/resume?g=a&g=1&id=a1", headers={"origin": BASE})
    assert changed.headers["location"].startswith(f"{path}&said=resume")
