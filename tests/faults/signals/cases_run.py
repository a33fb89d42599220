"""Cases of `sequencer run`: one queue crashes, one hangs, the code is exchanged; the others go on at their pace."""

from __future__ import annotations

import signal
from collections import Counter
from itertools import pairwise
from statistics import median

from .case import Case, case
from .scene import QUEUE, Running, Scene

CASES: list[Case] = []
GOOD = "from tests.faults.signals.app import handle\n"
WRONG = "raise ImportError('half written')\n"
SHARE = 0.9
"""Of its rate alone a queue keeps at least this, while another crashes."""


def run_file(scene: Scene, **queues: str) -> Running:
    """Start `sequencer run` with a file of these queues; the words of each are split at `;`."""
    lines = ["check_every = '0.2s'"]
    for name, words in queues.items():
        lines += [f"[queues.{name}]", *words.split(";"), *([] if "app" in words else ["app = 'shop:handle'"])]
    (scene.directory / "sequencer.toml").write_text("\n".join(lines) + "\n")
    return scene.start("run", changed=["hurried"], environment={"SEQUENCER_HOME": f"{scene.directory}/home"})


def write_code(scene: Scene, text: str) -> None:
    """Of another length each time: bytecode is known by that, and by the second."""
    number = len(list(scene.directory.glob("code-*")))
    (scene.directory / f"code-{number}").touch()
    (scene.directory / "shop.py").write_text(f"{text}#{'x' * number}\n")


def pace_of(scene: Scene, group: str, count: int) -> float:
    """Seconds from one message of this group to the next, in the middle: a pause of the machine is no pace."""
    at = [event["at"] for event in scene.events("handled") if event["id"].startswith(f"{group}-")]
    assert len(at) == count
    return float(median(after - before for before, after in pairwise(at)))


@case(CASES, one_ends_all="the others go on")
def one_queue_crashes(scene: Scene) -> None:
    """At each message of one queue its consumer dies; another queue's consumers die as they start."""
    write_code(scene, GOOD)
    (scene.directory / "gone.py").write_text("import os\nos._exit(7)\n")
    running = run_file(
        scene, jobs="n = 1", crash="n = 2; lease = '0.5s'; max_attempts = 100", gone="app = 'gone:handle'"
    )
    many = [{"seconds": 0.05}] * 50
    scene.append("alone", *many)
    scene.expect(lambda: scene.is_handled("alone-49"), "the others go on")
    for group in "xyz":
        scene.append(group, *[{"die": "always"}] * 3, queue="crash")
    scene.append("beside", *many)
    scene.expect(lambda: scene.is_handled("beside-49"), "the others go on")
    scene.expect(lambda: "gone: pool down" in running.said, "the queue without consumers is told")
    assert running.said.count("gone: pool down") == 1, "it is told more than once"
    deaths = running.said.count("crash: consumer died")
    assert deaths > 2, f"only {deaths} consumers died"
    scene.faults["SIGKILL of a consumer by its message, under run"] += deaths
    share = pace_of(scene, "alone", 50) / pace_of(scene, "beside", 50)
    assert share >= SHARE, f"beside the queue that crashes the rate is {share:.2f} of that alone"
    scene.signal(signal.SIGTERM, [running.pid], "to a master")
    scene.expect_end(running, 0)


@case(CASES, hung_ones_stay="the hung consumer is gone")
def one_consumer_hangs(scene: Scene) -> None:
    """It swallows each interruption, and is past its age and more."""
    write_code(scene, GOOD)
    running = run_file(scene, jobs="n = 1", hangs="n = 1; lease = '1s'; max_age = '0.5s'; hang_after = '0.5s'")
    scene.append("stuck", {"stubborn": True}, queue="hangs")
    scene.wait_begun("stuck-0")
    hung = next(event["pid"] for event in scene.events("begun"))
    scene.append("a", *[{}] * 20)
    scene.expect(lambda: "hangs: consumer overdue" in running.said, "the hung consumer is gone")
    scene.expect(lambda: hung not in running.consumers(), "the hung consumer is gone")
    scene.expect(lambda: scene.is_handled("a-19"), "the others go on")
    scene.faults["a handler that ignores the end of its consumer"] += 1
    for _ in range(3):
        scene.signal(signal.SIGTERM, [running.pid], "to a master")
    scene.expect_end(running, 0)


@case(CASES, all_at_once="the consumers of before go on")
def new_code(scene: Scene) -> None:
    """SIGHUP to everybody under load: with code that does not load, then with code that does."""
    write_code(scene, GOOD)
    running = run_file(scene, jobs="n = 2")
    groups = [f"g{number}" for number in range(8)]
    for group in groups:
        scene.append(group, {"gate": "go"}, *[{"seconds": 0.01}] * 19)
    scene.wait(lambda: len({event["pid"] for event in scene.events("begun")}) == 2, "both consumers have the old code")
    first = scene.consumers(running, 2)
    scene.open("go")
    write_code(scene, WRONG)
    scene.signal(signal.SIGHUP, [running.pid, *first], "to all, with code that does not load")
    scene.expect(lambda: f"{QUEUE}: reload failed" in running.said, "the consumers of before go on")
    scene.append("later", {})
    scene.expect(lambda: scene.is_handled("later-0"), "the consumers of before go on")
    assert running.consumers() == first, "the consumers of before were replaced"
    write_code(scene, GOOD)
    scene.signal(signal.SIGHUP, [running.pid, *first], "to all, with new code")
    scene.expect(lambda: not {*first} & {*running.consumers()}, "the new ones take over")
    scene.append("last", {})
    scene.expect(lambda: scene.is_handled("last-0", *(f"{group}-19" for group in groups)), "all is handled")
    counts = Counter(event["id"] for event in scene.events("begun"))
    assert len(counts) == 162, f"{162 - len(counts)} messages were lost"
    assert max(counts.values()) == 1, f"begun more than once: {[one for one, count in counts.items() if count > 1]}"
    scene.signal(signal.SIGTERM, [running.pid], "to a master")
    scene.expect_end(running, 0)
