"""What people and programs are told of an incident: lines for a chat, and JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.processes.alerts.notice import LINE_CHARACTERS, TEXT_BYTES
from sequencer.texts.alerts import CUT
from sequencer.texts.commands import command
from sequencer.texts.words import quoted

from ..support.notices import ITEM, NOTICE, OPENED, notice


def test_what_a_person_reads() -> None:
    assert NOTICE.chat_text().splitlines() == [
        "sequencer production orders: parked",
        "3 groups are parked",
        "Since 2023-11-14 22:13:20 UTC, for 90 s; now 3; limit 1. Namespace shop, sent by web-1.",
        "- 1002 'a b', id m1, 2023-11-14 22:13:21 UTC: ValueError: no such card",
        "    sequencer resume orders 1002 'a b'",
        "+ 2 more",
        "sequencer groups orders --state parked",
    ]


@pytest.mark.parametrize(
    ("seconds", "said"), [(-5, "0 ms"), (119.4, "119 s"), (150, "2 min"), (12_000, "3 h 20 min"), (187_200, "2 d 4 h")]
)
def test_resolved_says_how_long_it_lasted(seconds: float, said: str) -> None:
    line = notice(what="resolved", at=OPENED + seconds, value=None, limit=None).lines[2]
    assert line.startswith(f"It lasted {said}, from 2023-11-14 22:13:20 UTC to ")
    assert "limit" not in line


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [(61.25, "s", "now 61.2 s"), (3700, "s", "now 61 min"), (0.257, "share", "now 26 %"), (12_345, "", "now 12,345")],
)
def test_a_value_has_its_unit(value: float, unit: str, said: str) -> None:
    assert said in notice(value=value, limit=None, unit=unit).lines[2]


def test_the_json_is_all_of_it_in_plain_values() -> None:
    said = json.loads(notice(number=4, errors={"Park": 1}).body())
    assert (said["key"], said["errors"], said["more"]) == ("shop:orders:parked:1700000000000000:4:open", {"Park": 1}, 2)
    names = "number what namespace queue kind environment host opened_at at value limit unit"
    told = [4, "open", "shop", "orders", "parked", "production", "web-1", 1700000000.0, 1700000090.0, 3.0, 1.0, ""]
    assert [said[name] for name in names.split()] == told
    assert said["items"][0]["commands"] == ["sequencer resume orders 1002 'a b'"]
    assert said["items"][0].keys() == {"group", "id", "error", "at", "commands"}
    assert said.keys() == {*names.split(), *("key", "incident", "title", "text", "errors", "items", "more", "commands")}


def test_a_text_of_others_ends_no_line_and_calls_nobody() -> None:
    nasty = replace(ITEM, error='E: a\nb\x1b[2J\u202e <at user_id="all"></at> <!here> @everyone @all bob@allied.org')
    line = notice(items=(nasty,)).lines[3]
    assert line.endswith('E: a\\x0ab\\x1b[2J\\u202e < at user_id="all">< /at> < !here> @ everyone @ all bob@allied.org')
    assert "\n" not in notice(items=(nasty,)).as_json()["items"][0]["error"]


@pytest.mark.parametrize("text", ["@ALL", "x@all", "@所有人", "@bob", "<!channel>", "<@U024>", "<AT id=all></AT>"])
def test_no_group_calls_anybody(text: str) -> None:
    command = f"sequencer resume orders {quoted(text)}"
    said = notice(items=(replace(ITEM, group=quoted(text), error=text, commands=(command,)),)).chat_text()
    assert text not in said
    assert json.loads(notice(items=(replace(ITEM, commands=(command,)),)).body())["items"][0]["commands"] == [command]


CALLS = st.text(
    st.sampled_from(["@", "<", "!", "'", '"', "$", "\\", "\n", " ", "a", "l", "所", "-", "\u202e"]), max_size=8
)


@given(st.lists(st.one_of(CALLS, st.builds("{}@all{}".format, CALLS, CALLS)), min_size=1, max_size=4))
def test_a_command_that_calls_somebody_is_not_shown(group: list[str]) -> None:
    line = command("resume", "orders", *group)
    shown = [one.strip() for one in notice(items=(replace(ITEM, commands=(line,)),)).lines]
    assert not any(re.search(r"@all\b|(?<!\w)@\w|<[!@]", one) for one in shown)
    assert (line in shown) == (not re.search(r"@(?=all\b)|(?<!\w)@(?=\w)|<(?=[!@])", line))


@pytest.mark.parametrize("length", [*range(LINE_CHARACTERS - 40, LINE_CHARACTERS + 3), 5000])
def test_a_command_is_whole_or_left_out(length: int) -> None:
    """`resume orders 1002 aaa` would be another group than `resume orders 1002 aaaa`."""
    resume, skip = (command(name, "orders", "1002", "a" * length) for name in ("resume", "skip"))
    everything = "sequencer parked orders"
    said = notice(items=(replace(ITEM, commands=(resume, skip)),), commands=(everything,))
    shown = [line.strip() for line in said.lines if line.strip().startswith("sequencer ")][1:]
    assert shown == [one for one in (resume, skip, everything) if len(one) <= LINE_CHARACTERS]


ANY = st.text(st.characters(codec=None), max_size=LINE_CHARACTERS + 50)


@pytest.mark.slow
@given(ANY, st.lists(ANY, max_size=12), st.floats(), st.sampled_from([TEXT_BYTES, 2048, 200]))
def test_whatever_texts_there_are_it_fits_and_is_ascii_json(text: str, errors: list[str], at: float, most: int) -> None:
    items = tuple(replace(ITEM, id=error, error=error, at=at) for error in errors)
    any_notice = notice(text=text, items=items, at=at, value=at, unit="s")
    said = any_notice.chat_text(most)
    assert len(said.encode()) <= most
    assert said.startswith("sequencer production orders: parked")
    assert (said == any_notice.chat_text(10**9)) != said.endswith(CUT)
    assert all(len(line) <= LINE_CHARACTERS + 10 + 20 for line in said.split("\n"))
    assert json.loads(any_notice.body(), parse_constant=pytest.fail)["queue"] == "orders"
