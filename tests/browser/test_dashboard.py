"""What a person does with the dashboard, in a browser; each check with what turns it red."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import pytest

from sequencer.web import access

from ..support.handling import fail
from .conftest import Tabs, soon

pytestmark = pytest.mark.nightly
RED = pytest.mark.xfail(strict=True, raises=AssertionError)
"""A negative control: the check has to fail."""

ODD = [("\U0001f600" * 30, "x" * 150 + " {{ 7*7 }}{% raw %}"), ("../../..", "a\x00b\x1b[31m\r\n\x85")]
"""Groups that others may name so."""


def address(group: tuple[str, ...], page: str = "group", **more: str) -> str:
    return f"/q/jobs/{page}?{urlencode({'g': list(group), **more}, doseq=True)}"


def state(seq: Any, group: tuple[str, ...], id: str = "m1") -> Any:
    info = seq.get(group, id)
    return info and info.state


# -- by keyboard, on each screen ------------------------------------------------------------------------------------


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
    paths += [address(parked), address(ODD[0]), address(ODD[0], "message", id="i" * 100), "/q/nothing/"]
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
  if (document.body.dataset.typed) document.body.innerHTML = new DOMParser().parseFromString(
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
    page.evaluate("document.body.dataset.typed = 1")
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


# -- what others do -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [True, pytest.param(False, marks=RED)])
def test_a_script_that_got_into_a_page_does_not_run(policy: bool, tabs: Tabs, monkeypatch: pytest.MonkeyPatch) -> None:
    if not policy:
        monkeypatch.setitem(access._HEADERS, "content-security-policy", "frame-ancestors 'none'")
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
