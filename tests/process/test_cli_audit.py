"""`sequencer audit`: what it says, and its exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sequencer import Sequencer
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys

if TYPE_CHECKING:
    from .conftest import Cli


def forge(link: Link, namespace: str, id: str, score: int, stamp: int, token: int) -> None:
    """A record that no consumer wrote: a run under a lease of its own."""
    fields = {"group": "user:1", "id": id, "score": score, "stamp": stamp, "token": token, "began": token + 1}
    fields |= {"ended": token + 2, "redriven": 0, "refused": 0}
    words = [word for pair in fields.items() for word in pair]
    link.command("XADD", shard_keys(namespace, "jobs", 0).audit, "*", *words)


def test_an_inversion_is_named_and_is_exit_code_5(cli: Cli, seq: Sequencer, link: Link, namespace: str) -> None:
    seq.connect()
    forge(link, namespace, "b", 2, 20, 100)
    assert cli.call("audit", "jobs").returncode == 0
    forge(link, namespace, "a\x1b[31m", 1, 10, 200)
    told = cli.call("audit", "jobs")
    assert (told.returncode, told.stderr) == (5, "")
    lines = dict(line.strip().split("  ", 1) for line in told.stdout.splitlines())
    found = {name: text.strip() for name, text in lines.items()}
    assert found["messages"] == "2 of 1 group"
    assert (found["inversions"], found["overlaps"], found["tokens going back"]) == ("1", "0", "0")
    assert found["verdict"] == "violated"
    said = "inversion in group user 1: a\\x1b[31m (score 1) was handled after b (score 2), though it was there"
    assert found["first case"].startswith(said)
    shown = cli.call("audit", "jobs", "--json")
    report = json.loads(shown.stdout)
    assert shown.returncode == 5
    assert (report["inversions"], report["is_clean"]) == (1, False)
    assert report["case"].startswith(said)


def test_what_consumers_recorded_is_clean(cli: Cli, seq: Sequencer) -> None:
    seq.append_many({"body": n, "group": n % 5, "score": n} for n in range(1000, 0, -1))
    seq.consume(lambda message: None, until_empty=True, audit=True)
    told = cli.call("audit", "jobs")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("messages           1,000 of 5 groups\n")
    assert told.stdout.split()[-2:] == ["verdict", "clean"]
    report = json.loads(cli.call("audit", "jobs", "--json").stdout)
    assert (report["messages"], report["is_clean"], report["case"]) == (1000, True, None)


def test_a_queue_of_which_nothing_is_recorded_says_so(cli: Cli, seq: Sequencer) -> None:
    seq.append(1, group="g")
    seq.consume(lambda message: None, until_empty=True)
    told = cli.call("audit", "jobs")
    assert told.returncode == 0
    assert "sequencer consume jobs --audit " in told.stdout
    assert json.loads(cli.call("audit", "jobs", "--json").stdout)["first_at"] is None


def test_an_entry_that_no_consumer_wrote_is_one_clear_sentence(
    cli: Cli, seq: Sequencer, link: Link, namespace: str
) -> None:
    seq.connect()
    link.command("XADD", shard_keys(namespace, "jobs", 0).audit, "1-1", "a", "b")
    told = cli.call("audit", "jobs")
    assert (told.returncode, told.stdout) == (3, "")
    assert told.stderr.startswith("error: entry 1-1 of {")
