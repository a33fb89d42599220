"""Cases of what concerns all consumers: it is said once, by the supervisor."""

from __future__ import annotations

import re
import signal

from sequencer.client import Sequencer

from ..server.host import Host
from ..server.host import running as running_host
from .case import Case, case
from .scene import QUEUE, Scene

CASES: list[Case] = []
GROUPS = 20


@case(CASES, each_is_told="not once")
def server_away(scene: Scene) -> None:
    """The server is killed and comes back, under four consumers."""
    host = Host(scene.directory / "server", "--appendonly", "yes", "--appendfsync", "always")
    with running_host(host), Sequencer(QUEUE, host.url, namespace=scene.namespace) as queue:
        running = scene.consume(n=4, environment={"SEQUENCER_REDIS": host.url})
        queue.append({}, ["a"], id="a-0")
        scene.wait(lambda: scene.is_handled("a-0"), "the consumers work")
        scene.consumers(running, 4)
        scene.pass_time(1.0)
        host.kill()
        scene.faults["SIGKILL of the server"] += 1
        scene.wait(lambda: running.told("server lost"), "it is said that the server is lost")
        scene.pass_time(2.0)
        host.start()
        scene.wait(lambda: running.told("server back"), "it is said that the server is back")
        queue.append({}, ["b"], id="b-0")
        scene.wait(lambda: scene.is_handled("b-0"), "the consumers go on")
        scene.signal(signal.SIGTERM, [running.pid], "to the supervisor")
        scene.expect_end(running, 0)
        told = [running.told(name) for name in ("server lost", "server back")]
        assert told == [1, 1], f"the loss and the return are told {told} times, not once each"


@case(CASES, each_lease_is_told="not once")
def expired_leases(scene: Scene) -> None:
    """A consumer that held many groups is killed: that their leases are waited for is said once, with their number.

    Its first message kills it: a little later it would release what it has not begun.
    """
    for number in range(GROUPS):
        scene.append(f"{number}", {"crash": "crashed"})
    running = scene.consume("--lease", "3", "--until-empty", changed=["hurried", "claims-many"])
    scene.wait(lambda: running.told("consumer died"), "the end of the consumer")
    held = sum(info.state == "leased" for info in scene.queue.groups())
    assert held > 1, "it held no groups beside that of its message"
    scene.faults["SIGKILL of a consumer that holds groups"] += 1
    scene.expect_end(running, 0)
    told = re.findall(rf"{QUEUE}: expired leases: ([\d,]+) groups? of consumer", running.said)
    assert told == [f"{held:,}"], f"the leases of {held} groups are told as {told}, not once"
