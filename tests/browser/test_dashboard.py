"""What a person does with the dashboard, in a browser; each check with what turns it red."""

from __future__ import annotations

import re
import time
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from sequencer.testing import wait_until
from sequencer.web import access, rendering

from ..support.handling import fail
from .conftest import Tabs, soon

pytestmark = pytest.mark.nightly
RED = pytest.mark.xfail(strict=True, raises=AssertionError)
"""A negative control: the check has to fail."""

ODD = [
    ("<script>document.title='run'</script>", "7"),
    ('"><img src=x onerror="document.title=1">', "'"),
    ("javascript:document.title=1", "a&b=c#d?e"),
    ("../../..", "%2e%2e/%00"),
    ("\u202e\u2066gnp.exe", "a\x00b\x1b[31m\r\n\x85"),
    ("\U0001f600" * 30, "x" * 150 + " {{ 7*7 }}{% raw %}"),
]
"""Groups that others may name so."""


def address(group: tuple[str, ...], page: str = "group", **more: str) -> str:
    return f"/q/jobs/{page}?{urlencode({'g': list(group), **more}, doseq=True)}"


def state(seq: Any, group: tuple[str, ...], id: str = "m1") -> Any:
    info = seq.get(group, id)
    return info and info.state


def press(page: Any, name: str, said: str) -> None:
    """A button, until the page says what was done."""
    page.get_by_role("button", name=re.compile(f"^{name}")).first.click()
    page.wait_for_url(f"**said={said}*")


# -- by keyboard, without JavaScript, on each screen ----------------------------------------------------------------


def test_a_group_is_found_explained_and_resumed_by_keyboard(tabs: Tabs, seq: Any, parked: tuple[str, ...]) -> None:
    page = tabs.open()
    tab_to(page, "search")
    page.keyboard.type("1002 'a b'")
    page.keyboard.press("Enter")
    page.wait_for_url("**/group?*")
    assert "m1" in page.inner_text(".sentence")
    tab_to(page, "submit", "Retry")
    page.keyboard.press("Enter")
    page.wait_for_url("**said=resume*")
    assert state(seq, parked) == "due"
    assert page.get_by_role("status").first.is_visible()


def tab_to(page: Any, kind: str, text: str = "") -> None:
    """Press Tab until the focus, which must be visible, is on this."""
    for _ in range(40):
        page.keyboard.press("Tab")
        found = page.evaluate(
            "(() => { const e = document.activeElement, s = getComputedStyle(e);"
            "return [e.type || '', e.innerText || '', s.outlineStyle != 'none' || s.boxShadow != 'none'] })()"
        )
        if found[0] == kind and text in found[1]:
            assert found[2], "the focus can't be seen"
            return
    raise AssertionError(f"no {kind} {text} within 40 tabs")


def test_it_works_without_javascript(tabs: Tabs, seq: Any, parked: tuple[str, ...]) -> None:
    page = tabs.open("/q/jobs/", java_script_enabled=False)
    page.get_by_role("link", name="1002").or_(page.get_by_role("link", name="Open this group")).first.click()
    press(page, "Skip m1", "skip")
    assert (state(seq, parked), state(seq, parked, "m2")) == ("dead", "due")
    page.goto(f"{tabs.url}/q/jobs/many?do=purge")
    page.get_by_role("textbox", name=re.compile("how many")).fill("1")
    press(page, "Delete", "many")
    assert seq.count_dead() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_page_fits_each_screen_and_can_be_read(
    theme: str, tabs: Tabs, seq: Any, parked: tuple[str, ...], axe: str
) -> None:
    for group in ODD:
        seq.append({"text": "long " * 200}, group=group, id="i" * 100)
    seq.skip(parked, dead_letter=True)
    seq.consume(fail, until_empty=True)
    seq.append(1, group="later", id="d1", delay=600)
    paths = ["/", "/q/jobs/", "/q/jobs/groups", "/q/jobs/dead", "/q/jobs/history", "/q/jobs/many?do=skip", "/find?q=x"]
    paths += [address(parked), address(ODD[5]), address(ODD[5], "message", id="i" * 100), "/q/nothing/"]
    tabs.expected = {"404"}
    page = tabs.open(color_scheme=theme, bypass_csp=True)  # axe is put in by the test
    for path in paths:
        page.goto(tabs.url + path)
        for width in (360, 1440):
            page.set_viewport_size({"width": width, "height": 800})
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, (path, width)
        page.evaluate(axe)
        found = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa']})")
        assert [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == [], path


# -- live -----------------------------------------------------------------------------------------------------------

NAIVE = """setInterval(async () => {
  document.body.innerHTML = new DOMParser().parseFromString(
    await (await fetch(location.href)).text(), "text/html").body.innerHTML }, 300)"""


@pytest.mark.parametrize("script", [None, pytest.param(NAIVE, marks=RED)])
def test_what_a_person_does_survives_the_updates(
    script: str | None, tabs: Tabs, seq: Any, parked: tuple[str, ...]
) -> None:
    seq.append(1, group="other", id="o1")
    page = tabs.open(address(parked), script=script)
    page.locator("input[type=search]").fill("typed")
    page.locator("details > summary").first.click()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")
    page.locator("input[type=search]").focus()
    for number in range(12):
        seq.append(1, group=parked, id=f"n{number}")
    soon(lambda: "14" in page.inner_text("main"), page, "the new number of messages")
    seen = page.evaluate(
        "[document.activeElement.value, document.querySelector('details').open, String(getSelection())]"
    )
    assert seen[:2] == ["typed", True]
    assert seen[2] in ("1002 'a b'", "typed", "")


@pytest.mark.parametrize("script", [None, pytest.param("", marks=RED)])
def test_once_the_head_has_changed_its_form_is_inert_and_changes_nothing(
    script: str | None, tabs: Tabs, seq: Any, parked: tuple[str, ...]
) -> None:
    tabs.expected = {"409"}
    page = tabs.open(address(parked), script=script)
    assert page.get_by_role("button", name=re.compile("^Skip m1")).is_visible()
    seq.skip(parked, id="m1")
    seq.consume(fail, until_empty=True)
    form = page.locator("form[action*='/skip']")
    soon(lambda: form.evaluate("form => form.closest('[inert]') != null"), page, "an inert form", 5)
    assert page.get_by_role("link", name="Reload").is_visible()
    with page.expect_navigation():
        form.evaluate("form => form.submit()")  # as a click just before would
    assert "'m1'" in page.inner_text("main")
    page.get_by_role("link", name="Back to the group").click()
    assert page.get_by_role("button", name=re.compile("^Skip m2")).is_visible()
    assert (state(seq, parked), state(seq, parked, "m2")) == ("handled", "parked")


# -- what others write, and other sites -----------------------------------------------------------------------------


def without_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(access._HEADERS, "content-security-policy", "frame-ancestors 'none'")


@pytest.mark.parametrize("escape", [True, pytest.param(False, marks=RED)])
def test_odd_names_are_text(escape: bool, tabs: Tabs, seq: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering.TEMPLATES, "autoescape", escape)
    monkeypatch.setattr(rendering.TEMPLATES, "cache", {})
    without_policy(monkeypatch)  # nothing else protects
    tabs.expected = {"404", "400"}
    page = tabs.open()

    def check(path: str) -> None:
        page.goto(tabs.url + path)
        found = page.evaluate(
            "[document.title, document.querySelectorAll('main img, main script, main b.x').length,"
            "[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(n => n.startsWith('on'))]"
        )
        assert (found[0].endswith("· sequencer"), found[1:]) == (True, [0, []])

    def handle(message: Any) -> None:
        raise ValueError(message.group[0])

    for group in ODD:
        seq.append({"<b>": group[0]}, group=group, id=group[1])
    seq.consume(handle, until_empty=True)
    for group in ODD:
        for path in (f"/find?q={quote(group[0])}", address(group, "message", id=group[1]), address(group)):
            check(path)
        press(page, "Retry", "resume")
        assert state(seq, group, group[1]) == "due"
    for path in ("/", "/q/jobs/", "/q/jobs/groups", "/q/jobs/many?do=resume"):
        check(path)


@pytest.mark.parametrize("policy", [True, pytest.param(False, marks=RED)])
def test_a_script_that_got_into_a_page_does_not_run(policy: bool, tabs: Tabs, monkeypatch: pytest.MonkeyPatch) -> None:
    if not policy:
        without_policy(monkeypatch)
    tabs.expected = {"Content Security Policy", "script"}
    page = tabs.open()

    def inject(route: Any) -> None:
        answer = route.fetch()
        text = answer.text().replace("<main", "<script>document.title='run'</script><main")
        route.fulfill(response=answer, body=text)

    page.route("**/find*", inject)
    page.goto(f"{tabs.url}/find")
    assert page.title() != "run"


@pytest.mark.parametrize("same_site", ["Lax", pytest.param("Strict", marks=RED)])
def test_another_site_may_lead_here_and_change_nothing(
    same_site: str, tabs: Tabs, seq: Any, parked: tuple[str, ...]
) -> None:
    tabs.expected = {"401", "chat.example"}
    page = tabs.open()
    page.context.add_cookies([page.context.cookies()[0] | {"sameSite": same_site}])
    here, form = tabs.url + address(parked), tabs.url + address(parked, "skip", id="m1")
    other = f"<a href='{here}'>x</a><form method=post action='{form}'><button>y</button></form>"
    page.route("http://chat.example/", lambda route: route.fulfill(body=other, content_type="text/html"))
    for role, url in (("link", here), ("button", form)):
        page.goto("http://chat.example/")
        page.get_by_role(role).click()
        page.wait_for_url(url)
        assert ("m1" in page.inner_text("body")) == (role == "link")
    assert state(seq, parked) == "parked"


# -- the cost of watching -------------------------------------------------------------------------------------------


def test_many_tabs_cost_redis_what_one_does_and_none_nothing(
    tabs: Tabs, parked: tuple[str, ...], app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, original = list[float](), app.state.sampler._taken

    def counted() -> Any:
        taken.append(time.monotonic())
        return original()

    monkeypatch.setattr(app.state.sampler, "_taken", counted)
    pages = [tabs.open("/") for _ in range(10)]
    taken.clear()
    pages[0].wait_for_timeout(6500)
    assert 2 <= len(taken) <= 5
    tabs.close()
    taken.clear()
    until = time.monotonic() + 3
    wait_until(lambda: time.monotonic() > until)
    assert taken == []
