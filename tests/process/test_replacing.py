"""What a supervisor does about consumers that end: which of them it replaces, when, and when it does not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sequencer.testing import wait_until

if TYPE_CHECKING:
    from .conftest import Cli, Running, Work

PATIENCE_S = 30.0
APP = ("consume", "jobs", "--app", "shop:handle")


def delays(running: Running) -> list[float]:
    """In how many seconds it said that a consumer starts again."""
    return [float(text) for text in re.findall(r"\bin (\d+\.\d) s\b", running.stderr)]


def test_recycling_is_no_death_however_often(cli: Cli, work: Work) -> None:
    work.add("a", *[{}] * 8)
    consume = cli.start(*APP, "--max-messages", 1, "--until-empty")
    assert consume.ended() == 0
    assert len({event["pid"] for event in work.events("handled")}) == 8
    assert delays(consume) == [], "the next one starts at once"


def test_when_one_consumer_can_not_work_the_others_are_stopped_and_not_replaced(cli: Cli, work: Work) -> None:
    """The third process that imports the application finds it broken: the second consumer, while the first works."""
    (cli.directory / "worn.py").write_text(
        "import pathlib\n"
        "from shop import handle, wait_until\n"
        "pathlib.Path('imports').open('a').write('x')\n"
        "if pathlib.Path('imports').read_text() == 'xxx':\n"
        "    wait_until(lambda: pathlib.Path('break').exists(), 60)\n"
        "    raise ImportError('worn out')\n"
    )
    work.add("a", {"gate": "gate"}, {})
    consume = cli.start("consume", "jobs", "--app", "worn:handle", "-n", 2)
    work.wait_begun("a-0")
    cli.open("break")
    consume.wait_for("worn out")
    cli.open("gate")
    assert consume.ended() == 2
    assert work.events("handled", "a-0"), "what runs is finished"
    assert (cli.directory / "imports").read_text() == "xxx"
    assert "leased" not in work.states().values(), "released, not left to the lease"


def test_a_stop_does_not_wait_for_a_consumer_that_is_to_start_again(cli: Cli, work: Work) -> None:
    """After each quick death the next start takes longer; the place of one that waits for it is given up at once."""
    for number in range(8):
        work.add(f"g{number}", {"exit": 7})
    consume = cli.start(*APP, "--max-attempts", 9)
    wait_until(lambda: len(delays(consume)) >= 4, PATIENCE_S, "four deaths")
    consume.signal()
    assert consume.ended() == 0
    assert len(work.events("begun")) == len(delays(consume)) == 4
    assert delays(consume)[3] >= 0.8 > delays(consume)[0]


def test_a_folder_named_as_the_package_does_not_stand_in_for_it(cli: Cli, work: Work) -> None:
    (cli.directory / "sequencer").mkdir()
    (cli.directory / "sequencer" / "__init__.py").write_text("raise ImportError('the wrong one')\n")
    work.add("a", {})
    done = cli.run("consume", "jobs", "--until-empty")
    assert done.returncode == 0, done.stderr
    assert '"id":"a-0"' in done.stdout
