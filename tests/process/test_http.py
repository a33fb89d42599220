"""What `--http` serves: metrics whose sums outlive consumers, whether the service lives, and whether it is ready."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.error
import urllib.request
from typing import Any

import pytest

from sequencer import EmbeddedServer
from sequencer.processes import http
from sequencer.processes.http import serving
from sequencer.processes.master import kept_pool
from sequencer.testing import wait_until

from ..support.run_scene import PATIENCE_S, RunScene
from .conftest import Cli, Running, Work

ANY = "127.0.0.1:0"


def asked(address: str, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            status, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    return status, json.loads(text) if path in ("/live", "/ready") else text


def metric(address: str, name: str) -> float:
    """Of the only series that begins so."""
    (value,) = re.findall(rf"^{re.escape(name)}\S* (\S+)$", asked(address, "/metrics")[1], re.MULTILINE)
    return float(value)


def address_of(running: Running) -> str:
    found = wait_until(lambda: re.search(r"at http://(\S+): /metrics", running.stderr), PATIENCE_S, "it serves")
    assert found
    return found[1]


def test_a_service_says_how_it_is(cli: Cli, work: Work) -> None:
    work.add("a", {}, {}, {"fail": "x"})
    consume = cli.start("--log-level", "INFO", "consume", "jobs", "--app", "shop:seq", "-n", 2, "--http", ANY)
    address = address_of(consume)
    wait_until(lambda: asked(address, "/ready")[0] == 200, PATIENCE_S, "it is ready")
    assert asked(address, "/ready")[1] == {"ok": True, "queues_starting": [], "server_answers": True}
    status, live = asked(address, "/live")
    assert (status, live["ok"]) == (200, True)
    count = "sequencer_handler_duration_seconds_count"
    wait_until(lambda: metric(address, count) >= 3, PATIENCE_S, "what ran is reported")
    assert metric(address, "sequencer_consumers_wanted") == 2
    assert asked(address, "/nothing")[0] == 404
    consume.signal()
    assert consume.ended() == 0


def test_a_file_and_its_command_name_the_address(cli: Cli, scene: RunScene, work: Work) -> None:
    scene.write_file("http = '256.0.0.1:1'", orders="n = 1")
    refused = cli.run("run", "sequencer.toml")
    assert (refused.returncode, "http=256.0.0.1:1" in refused.stderr) == (2, True)
    assert cli.run("consume", "jobs", "--http", "9464").returncode == 2
    run = cli.start("--log-level", "INFO", "run", "sequencer.toml", "--http", ANY)
    address = address_of(run)
    wait_until(lambda: asked(address, "/ready")[0] == 200, PATIENCE_S, "it is ready")
    assert "sequencer_consumers{namespace=" in asked(address, "/metrics")[1]
    run.signal()
    assert run.ended() == 0


@pytest.mark.usefixtures("here")
def test_it_is_not_ready_while_its_code_does_not_load_or_the_server_is_away(
    cli: Cli, scene: RunScene, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_pool, "STANDING_RETRY_S", 0.5)
    scene.write_file(orders="n = 1; app = 'gone:orders'", mails="n = 1")
    (cli.directory / "gone.py").write_text("import os\nassert os.path.exists('fixed')\nfrom shop import orders\n")
    with EmbeddedServer(tmp_path / "own") as server:
        monkeypatch.setenv("SEQUENCER_REDIS", server.url)
        with scene.master(server.url) as master, serving(ANY, master) as address:
            said = {"ok": False, "queues_starting": ["orders"], "server_answers": True}
            wait_until(lambda: asked(address, "/ready") == (503, said), PATIENCE_S, "one queue waits")
            cli.open("fixed")
            wait_until(lambda: asked(address, "/ready")[0] == 200, PATIENCE_S, "it is ready")
            for pid in (killed := master.pids):
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not {*killed} & {*master.pids}, PATIENCE_S, "they are gone")
            assert asked(address, "/ready")[0] == 200, "a consumer that is replaced is not the service's end"
            server.stop()
            wait_until(lambda: asked(address, "/ready")[0] == 503, PATIENCE_S, "the server is away")
            assert asked(address, "/ready")[1] == {"ok": False, "queues_starting": [], "server_answers": False}
            assert asked(address, "/live")[0] == 200, "a restart would mend nothing"
            monkeypatch.setattr(http, "STUCK_S", -1.0)
            assert asked(address, "/live")[0] == 503


@pytest.mark.slow
@pytest.mark.usefixtures("here")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.nightly)])
def test_sums_are_exact_after_kills(scene: RunScene, make: Any, kills: int) -> None:
    """Of what was reported; here, each kill comes once that is so. What was counted never goes back."""
    seq = make("orders")
    scene.write_file(orders="n = 2; lease = '0.5s'")
    with scene.master() as master, serving(ANY, master) as address:
        (pool,) = master.pools
        count, seen = 0, [0.0]

        def counted() -> float:
            seen.append(metric(address, "sequencer_handler_duration_seconds_count"))
            return seen[-1]

        for number in range(kills):
            seq.append_many({"body": {}, "group": str(n), "id": f"{number}-{n}"} for n in range(20))
            count += 20
            wait_until(lambda: counted() >= count, PATIENCE_S, "all are reported")  # noqa: B023
            victim = pool.pids[number % 2]
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: victim not in pool.pids and pool.is_connected, PATIENCE_S, "replaced")  # noqa: B023
        assert counted() == pool.totals.handled == count
        assert seen == sorted(seen)
        assert sum(process.counts.get("handled", 0) for _, process in pool.running) < count, "the dead count, too"
        assert metric(address, 'sequencer_consumer_ends_total{how="died"') == kills
