"""`sequencer dead`: list, show, redrive, purge; right and wrong use."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.net.link import Link

from ..support.run_scene import PATIENCE_S
from ..support.said import dump, ids, json_of, refused
from .conftest import Cli


@pytest.fixture
def graves(make: Callable[..., Sequencer]) -> Sequencer:
    """Dead letters: x of group a 7, x and y of group b; group a 7 is parked on z."""
    queue = make(on_failure="dead_letter", max_attempts=1)

    def fail(message: Any) -> None:
        raise (KeyError if message.id == "y" else ValueError)(f"no {message.id}")

    queue.append({"n": 1}, ["a", 7], id="x", score=1, headers={"trace": "t"})
    queue.append({"n": 2}, ["b"], id="x", score=1)
    queue.append({"n": 3}, ["b"], id="y", score=2)
    assert queue.consume(fail, until_empty=True).failed == 3
    queue.append({}, ["a", 7], id="z", score=2)
    with queue.claim() as lease:
        lease.park(next(iter(lease)), "enough")
    return queue


def test_dead_letters_are_listed(cli: Cli, graves: Sequencer) -> None:
    def listed(*words: object) -> list[tuple[str, str]]:
        found = json_of(cli, "dead", "list", "jobs", *words)
        return [(letter["message"]["group"][0], letter["message"]["id"]) for letter in found]

    assert sorted(listed()) == [("a", "x"), ("b", "x"), ("b", "y")]
    assert listed("b", "--id", "x") == [("b", "x")]
    assert listed("--error", "Key*: *no y*", "--limit", 2) == [("b", "y")]
    assert len(listed("--limit", 2)) == 2
    table = cli.call("dead", "list", "jobs").stdout
    assert [text for text in ("a 7", "ValueError: no x", "KeyError: 'no y'", " UTC") if text not in table] == []


def test_dead_letters_are_shown_whole(cli: Cli, graves: Sequencer) -> None:
    shown = cli.call("dead", "show", "jobs", "--id", "x").stdout
    for text in ('{"n":1}', '{"n":2}', '{"trace":"t"}', "ValueError: no x", "Traceback (most recent call last)"):
        assert text in shown, shown
    [letter] = json_of(cli, "dead", "show", "jobs", "a", "7", "--id", "x")
    assert (letter["message"]["body"], letter["message"]["score"], letter["attempts"]) == ({"n": 1}, 1.0, 1)
    assert letter["error"]["traceback"].endswith("ValueError: no x\n")
    assert "'q'" in refused(cli, "dead", "show", "jobs", "--id", "q")


def test_dead_letters_are_counted_by_error(cli: Cli, graves: Sequencer) -> None:
    assert json_of(cli, "dead", "list", "jobs", "--by-error", "--limit", 1) == {"ValueError": 2, "KeyError": 1}
    assert json_of(cli, "dead", "list", "jobs", "a", "7", "--by-error") == {"ValueError": 1}


def test_redrive_puts_back_what_fits_and_names_parked_groups(cli: Cli, graves: Sequencer, namespace: str) -> None:
    assert json_of(cli, "dead", "redrive", "jobs", "--id", "x", "--dry-run") == {"count": 2, "dry_run": True}
    assert len(graves.dead()) == 3
    done = cli.call("dead", "redrive", "jobs", "--id", "x", "--rate", 100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f": sequencer resume jobs a 7 --namespace {namespace}\n")
    assert ids(graves, "a", "7") == ["x", "z"], "in its own place, before what it is parked on"
    graves.append({}, ["b"], id="y", score=2, replace=True)
    said = json.loads(cli.call("dead", "redrive", "jobs", "--all", "--json").stdout)
    stay = {"handled": 0, "changed": 0, "asked": 0, "stayed": [[["b"], "y"]]}
    assert said == {"redriven": 0, "pending": 1, "parked": [], "dry_run": False, **stay}
    assert cli.call("dead", "redrive", "jobs", "--all").returncode == 1, "none was put back, as where none fits"
    assert refused(cli, "dead", "redrive", "jobs", "--id", "y")


@pytest.mark.parametrize(("words", "what"), [(("redrive",), "redriven"), (("purge", "--yes"), "purged")])
def test_what_fits_no_dead_letter_has_status_1_where_there_are_some(
    cli: Cli, graves: Sequencer, words: tuple[str, ...], what: str
) -> None:
    for options in ((), ("--dry-run",)):
        done = cli.call("dead", *words, "jobs", "--error", "Valu", *options)
        assert (done.returncode, done.stderr) == (1, "")
        assert cli.call("dead", *words, "jobs", "nobody", "--json", *options).returncode == 1
    graves.purge(everything=True)
    assert json_of(cli, "dead", *words, "jobs", "--all")[what] == 0


def test_purge_asks_or_is_told(cli: Cli, graves: Sequencer) -> None:
    assert json_of(cli, "dead", "purge", "jobs", "b", "--dry-run") == {"count": 2, "dry_run": True}
    assert len(graves.dead()) == 3
    assert json_of(cli, "dead", "purge", "jobs", "--error", "KeyError", "--yes")["purged"] == 1
    for answer, status, left in ((b"n\n", 130, 2), (b"y\n", 0, 1)):
        done = answered(cli, answer, "dead", "purge", "jobs", "b")
        assert done.returncode == status, done.stderr
        assert "1 dead letter of queue jobs" in done.stderr
        assert len(graves.dead()) == left
    assert json_of(cli, "dead", "purge", "jobs", "--all", "--yes") == {"purged": 1, "dry_run": False}
    assert graves.dead() == []


def answered(cli: Cli, answer: bytes, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose question is answered so on a terminal."""
    mine, theirs = pty.openpty()
    with os.fdopen(mine, "wb", buffering=0) as terminal, os.fdopen(theirs, "rb") as stdin:
        terminal.write(answer)
        return subprocess.run(
            [cli.program, *words],
            stdin=stdin,
            capture_output=True,
            text=True,
            env=cli.environment,
            timeout=PATIENCE_S,
            check=False,
        )


def test_a_question_that_gets_no_answer_changes_nothing(cli: Cli, graves: Sequencer) -> None:
    done = answered(cli, b"\x04", "dead", "purge", "jobs", "--all")  # Ctrl-D
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert len(graves.dead()) == 3


def test_dead_commands_refuse_wrong_use_and_write_nothing(cli: Cli, graves: Sequencer, link: Link) -> None:
    before = dump(link)
    for words in (
        ("redrive", "jobs"),
        ("redrive", "jobs", "--id", "x", "--all"),
        ("redrive", "jobs", "--id", "nope", "--dry-run"),
        ("redrive", "jobs", "--all", "--rate", 0),
        ("purge", "jobs", "--yes"),
        ("purge", "jobs", "--all"),
        ("purge", "jobs", "--id", "nope", "--yes"),
    ):
        assert refused(cli, "dead", *words)
        assert dump(link) == before
