"""What a supervisor reads of the message that its consumer began last, and the command that leads to its group."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.consume.forks import note_in_hand
from sequencer.processes.service_events import Begun, consumer_died, consumer_killed, consumer_overdue
from sequencer.processes.worker.in_progress import InHand, mapped
from sequencer.store.group import MAX_GROUP_BYTES
from sequencer.texts.commands import command
from sequencer.values.message import Message

PARTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=8)


def begun(group: tuple[str, ...], id: str = "m1", *, namespace: str = "shop") -> tuple[Begun, Begun, Begun]:
    """Before, while and after a message of this group is in progress."""
    hand = InHand("jobs", namespace)
    memory = mapped(os.dup(hand.fd))
    try:
        before = hand.begun
        note_in_hand(memory, Message(id, group, 1.0, None, {}, 1, 5, 0.0, "jobs", 9))
        during = hand.begun
        note_in_hand(memory, None)
        return before, during, hand.begun
    finally:
        assert memory is not None
        memory.close()
        hand.close()


@given(st.lists(PARTS, min_size=1, max_size=4))
def test_the_command_names_the_very_group_whatever_its_parts_hold(parts: list[str]) -> None:
    before, during, after = begun(tuple(parts))
    assert during.see == command("explain", "jobs", *parts, namespace="shop")
    assert during.name.endswith(" id=m1")
    assert (before, after) == (Begun("", ""), Begun("", "")), "between batches there is none"


def test_a_shell_takes_it_as_it_stands() -> None:
    parts = ("order 7", "it's", "a:b", "new\nline", "100%")
    line = begun(parts)[1].see.removeprefix("sequencer explain")
    done = subprocess.run(["bash", "-c", f"printf '%s|' {line}"], capture_output=True, check=True)
    assert done.stdout.decode() == "".join(f"{word}|" for word in ("jobs", *parts, "--namespace", "shop"))


@pytest.mark.parametrize(("size", "is_named"), [(MAX_GROUP_BYTES, True), (1000, False)])
def test_a_group_that_was_cut_names_no_command(size: int, is_named: bool) -> None:
    """Longer ones are not of our clients."""
    assert bool(begun(("g" * size,))[1].see) == is_named


def test_what_a_death_and_a_kill_say_ends_with_the_command() -> None:
    one = Begun("group=7 id=7-1", "sequencer explain hang 7")
    for told in (
        consumer_died("hang", pid=7, ended_by="signal SIGKILL", lived_s=1.0, begun=one),
        consumer_killed("hang", pid=7, why="it hangs", begun=one),
        consumer_overdue("hang", pid=7, lived_s=1.0, begun=one, kill_in_s=5.0),
    ):
        assert told.detail.endswith("; the message that it began last: group=7 id=7-1; see: sequencer explain hang 7")
        assert (told.fields["in_progress"], told.fields["see"]) == one
    idle = consumer_killed("hang", pid=7, why="it hangs", begun=Begun())
    assert (idle.detail, idle.fields["see"]) == ("7, because it hangs", "")
