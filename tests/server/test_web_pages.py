"""The dashboard's pages: each answers, shows the texts of others as texts, and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any, NoReturn
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from sequencer import EmbeddedServer, Message, Sequencer
from sequencer.errors import ServerUnavailable
from sequencer.net.link import Link
from sequencer.texts.words import CONTROL
from sequencer.viewers import Viewers
from sequencer.web import dashboard
from sequencer.web.charts import bar, rates
from sequencer.web.sampler import PERIOD_S, SHARE, Rates, Sampler
from tests.support.command_counts import commands_of
from tests.support.proxy.fault_proxy import FaultProxy

ODD = (
    '<script>alert(1)</script><img src=x onerror="alert(1)">',
    """"'><b onmouseover='alert(1)'>""",
    "\u202egnp.exe\u2066",
    "  two  spaces ",
    "{{ 7777 * 7777 }} & 漢字 🎉 %2F ? # ;",
    "a\x00b\r\nc\x1b[2J\x85",
)
Open = Callable[..., TestClient]


class Read(HTMLParser):
    """What a browser would make of a page: its tags with attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def links(self, tag: str = "a", name: str = "href") -> list[str]:
        return [attrs[name] or "" for one, attrs in self.tags if one == tag and name in attrs]

    @property
    def actions(self) -> list[str]:
        return [str(attrs["action"]) for tag, attrs in self.tags if tag == "form" and attrs.get("method") == "post"]


@pytest.fixture
def seq(make: Callable[..., Sequencer]) -> Sequencer:
    return make(max_attempts=1, history_window="1h", history_bodies=True)


@pytest.fixture
def scene(seq: Sequencer) -> Sequencer:
    """Two parked groups, a dead letter, one that was skipped, a delayed and a due message; one that was handled."""

    def handle(message: Message) -> None:
        if message.body["is_bad"]:
            raise KeyError("amount")

    for group, is_bad in (("a", True), ("b", True), ("c", True), ("d", True), ("e", False)):
        seq.append({"is_bad": is_bad, "secret": "geheim"}, group=(group, 1), id=f"{group}1")
    seq.consume(handle, until_empty=True)
    seq.skip(("c", 1), dead_letter=True)
    seq.skip(("d", 1))
    seq.append({"n": 1}, group="later", id="l1", delay="1h")
    seq.append({"n": 1}, group="due", id="u1")
    return seq


@pytest.fixture
def opened(server: EmbeddedServer, namespace: str) -> Iterator[Open]:
    made: list[TestClient] = []

    def opened(role: str | None = "operate", redis: str | None = None, **options: Any) -> TestClient:
        app = dashboard(redis=redis or server.url, namespace=namespace, who=lambda _: role, **options)  # type: ignore[arg-type, return-value]
        made.append(TestClient(app, follow_redirects=False))
        made[-1].__enter__()
        return made[-1]

    yield opened
    for client in made:
        client.__exit__(None, None, None)


PAGES = (
    *("/", "/q/jobs/", "/q/jobs/groups", "/q/jobs/dead", "/q/jobs/dead?error=KeyError", "/q/jobs/history"),
    *(f"/q/jobs/groups?state={state}" for state in ("due", "leased", "waiting", "paused", "parked")),
    *(f"/q/jobs/group?g={group}" for group in ("a&g=1", "later", "due", "nobody")),
    *(f"/q/jobs/message?g={group}&g=1&id={group}1" for group in "acde"),
    *(f"/q/jobs/many?do={change}" for change in ("resume", "skip", "redrive", "purge", "resume&error=KeyError")),
    "/q/jobs/history?g=e&g=1&outcome=finished",
)


@pytest.mark.parametrize("role", ["operate", "look"])
def test_each_page_answers_and_asks_for_nothing_else(scene: Sequencer, opened: Open, role: str) -> None:
    client = opened(role)
    for path in PAGES:
        answer = client.get(path)
        page = Read(answer.text)
        assert (path, answer.status_code) == (path, 200)
        assert all(not name.startswith("on") and name != "style" for _, attrs in page.tags for name in attrs), path
        assert all("src" in attrs for tag, attrs in page.tags if tag == "script"), path
        assert all(urlsplit(one).netloc == "" for one in page.links() + page.links("link") + page.links("img", "src"))
        assert bool(page.actions) <= (role == "operate"), path
        assert ("geheim" in page.text) <= (role == "operate"), path
    assert "geheim" in opened("look", shows_bodies=True).get("/q/jobs/group?g=a&g=1").text


def test_what_stands_still_is_shown_by_error_with_one_example(scene: Sequencer, opened: Open) -> None:
    page = Read(opened().get("/q/jobs/").text)
    assert "2 groups" in page.text
    assert scene.explain(("a", 1)).sentence in page.text
    (retry,) = [one for one in page.actions if "/resume" in one]
    assert parse_qs(urlsplit(retry).query) == {"g": ["a", "1"], "id": ["a1"]}
    assert "/q/jobs/many?do=resume&error=KeyError" in page.links()


@pytest.mark.parametrize("odd", ODD)
def test_texts_of_others_are_texts(make: Callable[..., Sequencer], opened: Open, odd: str) -> None:
    seq = make(max_attempts=1)
    seq.append({odd: odd}, group=(odd, odd), id=odd, headers={"h": "v"})

    def handle(message: Message) -> NoReturn:
        raise ValueError(odd)

    seq.consume(handle, until_empty=True)
    client, seen = opened(), list[str]()
    todo = ["/q/jobs/", "/q/jobs/groups?state=parked"]
    while todo and len(seen) < 30:
        seen.append(todo.pop())
        answer = client.get(seen[-1])
        page = Read(answer.text)
        assert answer.status_code == 200, seen[-1]
        assert [attrs["src"] for tag, attrs in page.tags if tag in ("img", "script")] == [
            one for one in page.links("script", "src") + page.links("img", "src") if one.startswith("/static/")
        ]
        assert not CONTROL.search(answer.text.replace("\n", "")), seen[-1]
        assert "60481729" not in page.text, "nothing is evaluated"
        for one in [*page.actions, *page.links()]:
            asked = parse_qs(urlsplit(one).query, keep_blank_values=True)
            assert asked.get("g", [odd, odd]) == [odd, odd], "a name is the same when it comes back"
            assert asked.get("id", [odd]) == [odd]
        new = [one for one in page.links() if re.search("/(group|message|dead|many)[?]", one)]
        todo += [one for one in dict.fromkeys(new) if one not in seen and one not in todo]
    assert sum("/group?" in one for one in seen) == sum("/message?" in one for one in seen) == 1
    assert seq.explain((odd, odd)).reason == "parked"


def test_a_get_changes_no_key(scene: Sequencer, opened: Open, link: Link) -> None:
    def everything() -> dict[bytes, bytes]:
        return {key: link.command("DUMP", key) for key in link.command("KEYS", "*")}

    client, before = opened(), everything()
    assert [client.get(path).status_code for path in PAGES] == [200] * len(PAGES)
    assert everything() == before


def test_what_is_not_there(scene: Sequencer, opened: Open) -> None:
    client = opened()
    paths = ("/q/nope/", "/x", "/q/jobs/message?g=a&id=zz", "/q/jobs/group", "/q/jobs/many?do=delete")
    assert [client.get(path).status_code for path in paths] == [404] * 5
    assert client.get("/q/jobs/groups?state=nope").status_code == 400
    assert client.get("/q/jobs/groups?after=nope").status_code == 400
    assert opened(queues=["other"]).get("/q/jobs/").status_code == 404
    assert "/q/other/" in Read(opened(queues=["other"]).get("/").text).links()


def test_many_tabs_ask_the_server_no_more_than_one(
    scene: Sequencer, server: EmbeddedServer, namespace: str, link: Link
) -> None:
    now = [100.0]
    sampler = Sampler(Viewers(None, server.url, namespace), lambda: now[0])
    sampler.overview()
    now[0] += 2
    once = commands_of(link, sampler.overview)
    assert once.total() > 5
    assert commands_of(link, lambda: [sampler.overview() for _ in range(10)]).total() == 0
    now[0] += 1.9
    assert commands_of(link, sampler.overview).total() == 0
    shared = [sampler.once("jobs", "x", object) for _ in range(10)]
    assert len(set(shared)) == 1
    sampler.changed("jobs")
    assert sampler.once("jobs", "x", object) not in shared
    assert commands_of(link, sampler.overview).total() > 5, "whoever changed something sees it at once"


@pytest.mark.parametrize(("is_away", "seconds"), [(False, SHARE + 1.0), (True, PERIOD_S + 1.0)])
def test_a_slow_snapshot_is_taken_less_often(
    scene: Sequencer, server: EmbeddedServer, namespace: str, is_away: bool, seconds: float
) -> None:
    now, looks = [100.0], list[float]()

    class Slow(Viewers):
        def names(self) -> list[str]:
            looks.append(now[0])
            now[0] += 1
            if is_away:
                raise ServerUnavailable
            return super().names()

    sampler = Sampler(Slow(None, server.url, namespace), lambda: now[0])
    for _ in range(100):
        sampler.overview()
        now[0] += 1
    assert {after - before for before, after in pairwise(looks)} == {seconds}


def test_while_the_server_is_away_the_last_numbers_stay(scene: Sequencer, opened: Open, proxy: FaultProxy) -> None:
    client = opened(redis=proxy.url)
    assert client.get("/q/jobs/").status_code == 200
    sampler: Sampler = client.app.state.sampler  # type: ignore[attr-defined]
    proxy.close()
    sampler.changed("jobs")
    overview = sampler.overview()
    assert overview.error
    assert [one.queue for one in overview.queues] == ["jobs"]
    answers = [client.get(path) for path in ("/", "/q/jobs/", "/q/jobs/groups")]
    assert [one.status_code for one in answers] == [200, 503, 503]
    assert "/q/jobs/" in Read(answers[0].text).links()


def test_a_queue_that_was_made_again(make: Callable[..., Sequencer], opened: Open, link: Link) -> None:
    make().append(1, group="a")
    client = opened()
    assert client.get("/q/jobs/group?g=a").status_code == 200
    make().delete()
    again = make(shards=2)
    again.append(1, group="b")
    answers = [client.get("/q/jobs/group?g=b") for _ in range(2)]
    assert answers[-1].status_code == 200
    assert "s-due" in answers[-1].text
    make().delete()
    assert [client.get("/q/jobs/").status_code for _ in range(2)][-1] in (200, 404)
    assert not [key for key in link.command("KEYS", "*") if b":jobs:" in key], "whoever looks does not bring it back"


def test_mounted_its_links_begin_with_the_path(scene: Sequencer, server: EmbeddedServer, namespace: str) -> None:
    inner = dashboard(redis=server.url, namespace=namespace, who=lambda _: "operate")
    with TestClient(Starlette(routes=[Mount("/sequencer", inner)])) as client:
        page = Read(client.get("/sequencer/q/jobs/").text)
        found = page.links() + page.actions + page.links("link") + page.links("script", "src")
        assert [one for one in found if not one.startswith(("/sequencer/", "#"))] == [""] * found.count("")
        assert client.get(page.links("link")[-1]).status_code == 200
    inner.state.viewers.forget()


def test_pictures(scene: Sequencer) -> None:
    info = scene.info()
    assert (info.parked, info.due, info.waiting) == (2, 1, 1)
    widths = [float(one) for one in re.findall(r'width="([\d.]+)"', bar(info))]
    assert widths == pytest.approx([2, 1, 1])
    assert rates([Rates(0, 1, 1)], 100, 10) == ""
    assert rates([Rates(0, 0, 0), Rates(2, 4, 2)], 100, 10).count("polyline") == 2
