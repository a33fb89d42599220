"""explain, get, cancel, reschedule, pause, unpause; right and wrong use."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from sequencer import Message, Park, Sequencer
from sequencer.cli.app import app
from sequencer.cli.main import import_commands
from sequencer.net.link import Link

from ..support.said import dump, ids, json_of, refused
from .conftest import Cli

FAR = 4_000_000_000
BELL = "q\x07\x1b[2J\x9b2J"
"""Control characters: a bell, and "clear the screen" in seven bits and in eight (C1)."""


def test_explain_says_why_in_one_sentence(cli: Cli, make: Callable[..., Sequencer]) -> None:
    queue = make(sequence=True)
    queue.connect()
    assert cli.call("explain", "jobs", "a", "7").stdout == "group a 7 has no messages\n"
    queue.append({}, ["a", "7"], score=3)
    assert not queue.claim()
    said = json_of(cli, "explain", "jobs", "a", "7")
    assert (said["group"], said["reason"], said["backlog"], said["head_id"]) == (["a", "7"], "gap", 1, "3")
    queue.append({}, ["b\x1b[2J"], score=1)
    assert cli.call("explain", "jobs", "b\x1b[2J").stdout.startswith("group $'b\\x1b[2J' ")


def test_skip_steps_over_what_is_missing(cli: Cli, make: Callable[..., Sequencer]) -> None:
    queue = make(sequence=True)
    for group in ("a", "b"):
        queue.append({}, group, score=3)
    assert cli.call("skip", "jobs", "a").returncode == 0
    assert json_of(cli, "skip", "jobs", "b") == {"group": ["b"], "first": 1, "last": 2}
    reasons = {queue.explain(group).reason for group in ("a", "b")}
    assert reasons <= {"due", "no consumers"}, "the latter on a slow machine"


def test_get_shows_one_message(cli: Cli, make: Callable[..., Sequencer]) -> None:
    queue = make(max_attempts=1)
    queue.append({"n": 1}, ["a", 7], id="x", at=FAR, headers={"trace": "t"})
    said = json_of(cli, "get", "jobs", "a", "7", "--id", "x")
    assert (said["id"], said["group"], said["state"], said["attempts"]) == ("x", ["a", "7"], "delayed", 0)
    assert said["due_in_s"] > 1e6
    assert (said["message"]["body"], said["message"]["score"], said["error"]) == ({"n": 1}, FAR, None)
    table = cli.call("get", "jobs", "a", "7", "--id", "x").stdout
    assert [text for text in ("delayed", '{"n":1}', '{"trace":"t"}', " h\n") if text not in table] == []

    queue.append({}, "b", id="y")
    with queue.claim() as lease:
        lease.park(next(iter(lease)), "no \x1b[2J such item")
    table = cli.call("get", "jobs", "b", "--id", "y").stdout
    assert "Park: no \\x1b[2J such item" in table
    assert "parked" in table
    assert "\x1b" not in table
    assert refused(cli, "get", "jobs", "a", "7", "--id", "q").startswith("error: message 'q' of group a 7 ")
    assert "--id" in refused(cli, "get", "jobs", "a", "7")


def test_cancel_and_reschedule(cli: Cli, seq: Sequencer) -> None:
    seq.append_many({"group": ["a", 7], "id": name, "at": FAR, "body": {}} for name in "xyz")
    assert json_of(cli, "cancel", "jobs", "a", "7", "--id", "x")["cancelled"]
    assert ids(seq, "a", "7") == ["y", "z"]

    moved = cli.call("reschedule", "jobs", "a", "7", "--id", "z", "--at", "2096-10-02T09:06:39+02:00")
    assert moved.returncode == 0
    assert [(message.id, message.score) for message in seq.peek(["a", 7])] == [("z", FAR - 1), ("y", FAR)]
    said = json_of(cli, "reschedule", "jobs", "a", "7", "--id", "y", "--delay", 0, "--score", -2)
    assert said == {"group": ["a", "7"], "id": "y", "due_in_s": 0.0}
    assert [(message.id, message.score) for message in seq.peek(["a", 7])] == [("y", -2), ("z", FAR - 1)]
    assert cli.call("reschedule", "jobs", "a", "7", "--id", "z", "--at", FAR).returncode == 0
    assert seq.peek(["a", 7])[1].score == FAR


A = ("reschedule", "jobs", "a", "--id", "x")


def test_wrong_times_and_unknown_ids_are_refused_and_write_nothing(cli: Cli, seq: Sequencer, link: Link) -> None:
    seq.append({}, "a", id="x", delay=600)
    seq.append({}, "held", id="h")
    with seq.claim(lease=60):
        before = dump(link)
        for words in (
            ("cancel", "jobs", "a", "--id", "q"),
            ("cancel", "jobs", "held", "--id", "h"),
            ("reschedule", "jobs", "a", "--id", "q", "--delay", 1),
            A,
            (*A, "--delay", -1),
            (*A, "--delay", 1, "--at", 5),
            (*A, "--at", "tomorrow"),
            (*A, "--at", "2030-01-01T00:00:00"),
            (*A, "--delay", 1, "--score", "high"),
        ):
            assert refused(cli, *words)
            assert dump(link) == before


def test_pause_and_unpause_a_group(cli: Cli, seq: Sequencer) -> None:
    seq.append({}, ["a", 7])
    seq.append({}, ["b"])
    assert [json_of(cli, "pause", "jobs", "a", "7")["changed"] for _ in range(2)] == [True, False]
    done = cli.run("consume", "jobs", "--until-empty")
    assert json.loads(done.stdout)["group"] == ["b"]
    assert "1 paused group" in done.stderr
    [group] = json_of(cli, "groups", "jobs", "--state", "paused")
    assert (group["group"], group["state"], group["due_in_s"]) == (["a", "7"], "paused", None)
    assert json_of(cli, "unpause", "jobs", "a", "7") == {"queue": "jobs", "group": ["a", "7"], "changed": True}
    assert [info.state for info in seq.groups()] == ["due"]


def test_pause_and_unpause_a_queue(cli: Cli, seq: Sequencer) -> None:
    seq.append({}, ["a", 7])
    assert json_of(cli, "pause", "jobs") == {"queue": "jobs", "group": None, "changed": True}
    assert "jobs (paused)" in cli.call("info", "jobs").stdout
    done = cli.run("consume", "jobs", "--until-empty")
    assert (done.returncode, done.stdout) == (0, "")
    assert ", paused" in done.stderr
    assert [json_of(cli, "unpause", "jobs")["changed"] for _ in range(2)] == [True, False]
    assert not seq.info().is_paused


@pytest.mark.parametrize(
    "words",
    [
        ("pause", "jobs", BELL),
        ("cancel", "jobs", BELL, "--id", BELL),
        ("skip", "jobs", BELL),
        ("explain", "jobs", BELL),
    ],
    ids=lambda words: words[0],
)
def test_no_control_character_of_a_name_reaches_the_terminal(
    seq: Sequencer, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, namespace: str
) -> None:
    seq.append(1, group=[BELL], id=BELL, delay=60)
    if words[0] in ("skip", "resume"):
        seq.reschedule([BELL], BELL, delay=0)
        seq.consume(fail, until_empty=True)
    monkeypatch.setenv("SEQUENCER_REDIS", seq.endpoint.url or "")
    monkeypatch.setenv("SEQUENCER_NAMESPACE", namespace)
    import_commands()
    done = CliRunner().invoke(app, [*words])
    assert done.exit_code == 0, done.output
    said = done.stdout.replace(json.dumps(BELL, ensure_ascii=False), "") + done.stderr
    assert "\\x07" in said
    assert not set(said) & {"\x07", "\x1b", "\x9b"}


def fail(_: Message) -> None:
    raise Park
