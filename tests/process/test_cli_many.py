"""`sequencer resume`, `skip` and `unpause` on many groups, `parked`, `unskip`: what they do, say and refuse."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from sequencer import Sequencer
from sequencer.testing import wait_until

from ..support.said import json_of, refused
from .test_cli_dead import answered

if TYPE_CHECKING:
    from .conftest import Cli


@pytest.fixture
def stuck(make: Callable[..., Sequencer]) -> Sequencer:
    """Groups g 0 to g 4, each of two messages, parked on the first: g 0 and g 3 by a LookupError."""
    queue = make(max_attempts=1)

    def fail(message: Any) -> None:
        raise (LookupError if message.body % 3 == 0 else ValueError)("no")

    for n in range(5):
        queue.append_many({"body": n, "group": ["g", n], "id": f"m{k}", "score": k} for k in range(2))
    queue.consume(fail, until_empty=True)
    return queue


def test_a_dry_run_counts_by_error(cli: Cli, stuck: Sequencer) -> None:
    done = cli.call("resume", "jobs", "--all", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["5", "groups", "would", "be", "resumed"],
        ["error", "groups"],
        ["ValueError", "3"],
        ["LookupError", "2"],
    ]
    assert stuck.count_parked() == 5
    said = json_of(cli, "skip", "jobs", "--error", "Lookup*", "--dry-run")
    assert said == {
        "chosen": 2,
        "done": 0,
        "changed": 0,
        "waiting": 0,
        "errors": {"LookupError": 2},
        "is_dry_run": True,
        "others": {"ValueError": 3},
        "asked": 0,
    }
    said = cli.call("skip", "jobs", "--error", "Lookup*", "--dry-run").stdout
    assert said.startswith("2 groups would be skipped, their heads made dead letters\n")


@pytest.mark.parametrize("words", [("resume",), ("skip",), ("skip", "--discard", "--yes")])
def test_a_pattern_that_fits_nothing_names_the_errors_there_are(
    cli: Cli, stuck: Sequencer, namespace: str, words: tuple[str, ...]
) -> None:
    command, *more = words
    for options in ((), ("--dry-run",)):
        done = cli.call(command, "jobs", "--error", "Looku", *more, *options)
        assert (done.returncode, done.stderr) == (1, "")
        see = f"sequencer parked jobs --namespace {namespace}"
        assert done.stdout == f"no parked group fits; there are: 5 parked groups; inspect: {see}\n"
    assert stuck.count_parked() == 5
    recent = cli.call("resume", "jobs", "--since", "0.001s", "--json")
    assert (recent.returncode, json.loads(recent.stdout)["others"]) == (1, {"ValueError": 3, "LookupError": 2})


def test_many_are_resumed_and_a_rerun_has_nothing_to_do(cli: Cli, stuck: Sequencer) -> None:
    assert cli.call("resume", "jobs", "--error", "Lookup*", "--rate", 100).stdout == "resumed 2 of 2 groups\n"
    assert cli.call("resume", "jobs", "--since", "10m").stdout == "resumed 3 of 3 groups\n"
    done = cli.call("resume", "jobs", "--all")
    assert (done.returncode, done.stdout) == (0, "resumed 0 of 0 groups\n")
    assert stuck.consume(lambda message: None, until_empty=True).handled == 10


def test_groups_that_are_left_are_said_with_status_1(cli: Cli, make: Callable[..., Sequencer]) -> None:
    seq = make(sequence=True, gap_timeout=0.01)
    seq.append(9, group="gap", score=9)
    seq.consume(lambda message: None, until_empty=True)
    done = cli.call("resume", "jobs", "--all")
    assert done.returncode == 1
    assert done.stdout.splitlines()[1].startswith(
        "1 parked group more, waiting for a missing number: append it, or skip it; see: sequencer parked jobs"
    )


def test_skipped_heads_become_dead_letters_or_are_discarded(cli: Cli, stuck: Sequencer, namespace: str) -> None:
    done = cli.call("skip", "jobs", "--error", "LookupError")
    assert done.stdout == "skipped 2 of 2 groups, their heads made dead letters\n", done.stderr
    back = f"sequencer dead redrive jobs --error LookupError --namespace {namespace}"
    assert done.stderr == f"this puts all dead letters of such an error back: {back}\n"
    assert len(stuck.dead()) == 2
    said = refused(cli, "skip", "jobs", "--all", "--discard")
    assert "there is no terminal to ask on; add --yes to do it, or --dry-run to see how many it would be" in said
    for answer, parked in ((b"n\n", 3), (b"y\n", 0)):
        asked = answered(cli, answer, "skip", "jobs", "--all", "--discard")
        assert "Discard the failed heads of 3 groups of queue jobs for good? [y/N]" in asked.stderr
        assert (asked.returncode, stuck.count_parked()) == (0, parked)
    assert (len(stuck.dead()), stuck.info().totals["skipped"]) == (2, 3)
    assert json_of(cli, "skip", "jobs", "--all", "--discard", "--yes")["chosen"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("resume", "jobs"), "error: say which: the parts of one group, or --all, --error or --since for many"),
        (("resume", "jobs", "g", "1", "--all"), "error: the parts of a group are given together with --all"),
        (("resume", "jobs", "--all", "--error", "x"), "error: --all is for every parked group; leave it out, or"),
        (("skip", "jobs", "--all", "--dead-letter", "--discard", "--yes"), "--dead-letter keeps what --discard throws"),
        (("resume", "jobs", "--all", "--outage"), "--all is not for --outage"),
        (("resume", "jobs", "g", "1", "--rate", "5"), "error: --rate is for many groups; leave it out"),
        (("resume", "jobs", "--since", "10 weeks"), "'10 weeks' must be a number of seconds, or text like"),
        (("resume", "jobs", "--all", "--rate", "0"), "error: rate=0.0 must be a number of groups a second"),
        (("skip", "jobs", "g", "1", "--discard"), "error: --discard is for many groups; leave it out"),
        (("skip", "jobs", "--all", "--id", "m0"), "error: --id is for one group; leave it out"),
        (("unpause", "jobs", "g", "--all"), "error: the parts of a group are given together with --all"),
    ],
)
def test_wrong_use_is_refused_and_changes_nothing(
    cli: Cli, stuck: Sequencer, words: tuple[str, ...], said: str
) -> None:
    assert said in " ".join(refused(cli, *words).split())
    assert stuck.count_parked() == 5
    assert not stuck.info().is_paused


def test_pauses_of_groups_are_lifted_at_once(cli: Cli, stuck: Sequencer) -> None:
    for n in range(3):
        stuck.pause(["g", n])
    stuck.pause()
    assert cli.call("unpause", "jobs", "--all").stdout == "unpaused 3 groups\n"
    assert (stuck.paused_groups(), stuck.info().is_paused) == ([], True)


def test_parked_says_how_many_there_are_and_what_fixes_all(cli: Cli, stuck: Sequencer, namespace: str) -> None:
    shown = cli.call("parked", "jobs", "--limit", 2).stdout.splitlines()
    assert len(shown) == 7
    assert shown[3:5] == [
        "the first 2 are shown; --limit shows more",
        f"to let all of them go on: sequencer resume jobs --all --namespace {namespace}",
    ]
    assert len(json_of(cli, "parked", "jobs", "--limit", 2)) == 2
    stuck.resume_many(error="ValueError")
    stuck.resume(["g", 0])
    assert len(cli.call("parked", "jobs").stdout.splitlines()) == 2, "of one group the table says all"
    stuck.resume(["g", 3])
    assert cli.call("parked", "jobs").stdout == "no parked groups\n"


def test_a_skip_names_what_it_removes_and_what_puts_it_back(cli: Cli, stuck: Sequencer, namespace: str) -> None:
    assert "group g 1 stands at 'm0' now, not at 'm1'" in refused(cli, "skip", "jobs", "g", "1", "--id", "m1")
    done = cli.call("skip", "jobs", "g", "1", "--id", "m0")
    back = f"sequencer unskip jobs g 1 --id m0 --namespace {namespace}"
    puts_back = "this puts it back, behind what is handled meanwhile"
    assert done.stderr == f"removed m0 from group g 1, which goes on; until the next skip, {puts_back}: {back}\n"
    assert '"id":"m0"' in done.stdout
    assert cli.call(*back.split()[1:]).stdout == "m0 is back in group g 1\n"
    assert [message.id for message in stuck.peek(["g", 1])] == ["m0", "m1"]
    assert "no skipped message of group g 1 is kept" in refused(cli, "unskip", "jobs", "g", "1")
    done = cli.call("skip", "jobs", "g", "2", "--dead-letter")
    told = f"made a dead letter of m0 from group g 2, which goes on; {puts_back}: sequencer dead redrive"
    assert told in done.stderr
    assert [letter.message.id for letter in stuck.dead()] == ["m0"]


def test_a_list_of_several_errors_names_the_command_of_each(cli: Cli, stuck: Sequencer, namespace: str) -> None:
    said = cli.call("parked", "jobs").stdout
    alike = "sequencer resume jobs --error {} --namespace " + namespace
    values, lookups = (alike.format(name) for name in ("ValueError", "LookupError"))
    assert said.endswith(f"those of LookupError: {lookups}\nthose of ValueError: {values}\n")
    assert cli.call(*lookups.split()[1:]).stdout == "resumed 2 of 2 groups\n"
    assert "those of" not in cli.call("parked", "jobs").stdout


def test_parked_groups_are_counted_by_error(cli: Cli, stuck: Sequencer, namespace: str) -> None:
    assert json_of(cli, "parked", "jobs", "--by-error", "--limit", 1) == {"ValueError": 3, "LookupError": 2}
    said = cli.call("parked", "jobs", "--by-error").stdout
    table, _, commands = said.partition("to let all of them go on: ")
    assert [line.split() for line in table.splitlines()[1:]] == [["ValueError", "3"], ["LookupError", "2"]]
    assert f"sequencer resume jobs --error LookupError --namespace {namespace}\n" in commands
    assert "sequencer resume jobs --all" in cli.call("parked", "jobs", "--limit", "1").stdout


def test_ctrl_c_says_how_far_it_came_and_the_same_command_goes_on(cli: Cli, stuck: Sequencer) -> None:
    words = ("resume", "jobs", "--all", "--rate", "1")
    running = cli.start(*words)
    wait_until(lambda: stuck.count_parked() == 3, 30.0)
    running.signal(signal.SIGINT)
    assert running.ended() == 130
    assert re.fullmatch(
        r"interrupted resuming at [12] of 5; what was sent last may be done too; the same command goes on\n",
        running.stderr,
    )
    assert cli.call("resume", "jobs", "--all").stdout.startswith("resumed ")
    assert stuck.count_parked() == 0
