"""What is served: `sequencer web`, and by `--http` of a service: metrics whose sums outlive consumers, its health."""

from __future__ import annotations

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest

from sequencer import EmbeddedServer
from sequencer.processes import http
from sequencer.processes.http import serving
from sequencer.processes.master import kept_pool
from sequencer.testing import wait_until

from ..support.handling import fail
from ..support.proxy.fault_proxy import FaultProxy
from ..support.run_scene import PATIENCE_S, RunScene
from .conftest import Cli, Running

ANY = "127.0.0.1:0"
TOKEN = "sixteen-characters"
OWN = {"Authorization": f"Bearer {TOKEN}"}
COUNT = "sequencer_handler_duration_seconds_count"


def asked(address: str, path: str) -> tuple[int, Any]:
    answer = httpx.get(f"http://{address}{path}", timeout=10)
    return answer.status_code, answer.json() if path in ("/live", "/ready") else answer.text


def metric(address: str, name: str) -> float:
    """Of the only series that begins so."""
    (value,) = re.findall(rf"^{re.escape(name)}\S* (\S+)$", asked(address, "/metrics")[1], re.MULTILINE)
    return float(value)


def wait_ready(address: str, status: int = 200) -> Any:
    wait_until(lambda: asked(address, "/ready")[0] == status, PATIENCE_S, f"/ready answers {status}")
    return asked(address, "/ready")[1]


def printed(running: Running, pattern: str) -> str:
    found = wait_until(lambda: re.search(pattern, running.stdout + running.stderr), PATIENCE_S, "it serves")
    assert found
    return found[1]


@pytest.mark.slow
def test_the_dashboard_prints_a_url_that_lets_in_here_to_look_alone(cli: Cli) -> None:
    running = cli.start("web", "--port", 0, "--read-only")
    url = printed(running, r"(http\S+token=\S+)\n")
    place = f"http://{urlsplit(url).netloc}/"
    with httpx.Client(follow_redirects=True, headers={"Sec-Fetch-Site": "same-origin"}) as browser:
        assert browser.get(place).status_code == 401
        answer = browser.get(url)
        assert (answer.status_code, str(answer.url)) == (200, place)
        assert browser.post(f"{place}q/jobs/pause").status_code == 403
        assert browser.get(place, headers={"Host": "evil.example"}).status_code == 400
    taken = cli.call("web", "--port", urlsplit(url).port)
    assert (taken.returncode, "Traceback" in taken.stderr) == (2, False)
    running.signal(signal.SIGINT)
    assert running.ended() in (0, 130, -signal.SIGINT)


@pytest.mark.slow
def test_sigterm_ends_it_within_4_s_while_a_tab_is_open_and_a_change_of_many_runs(
    cli: Cli, make: Any, server: EmbeddedServer
) -> None:
    seq = make(max_attempts=1, on_failure="dead_letter")
    seq.append_many({"body": n, "group": str(n)} for n in range(3000))
    seq.consume(fail, until_empty=True)
    with FaultProxy(server.url) as proxy, httpx.Client(headers=OWN) as tab, ThreadPoolExecutor(1) as pool:
        proxy.add("request delayed", on=["redrive"], times=None, seconds=0.2)
        running = cli.start("web", "--port", 0, SEQUENCER_REDIS=proxy.url, SEQUENCER_WEB_TOKEN=TOKEN)
        place = printed(running, r"(http\S+/)\n")
        assert tab.get(place).status_code == 200
        answer = pool.submit(httpx.post, f"{place}q/jobs/redrive-many", headers=OWN, timeout=PATIENCE_S)
        wait_until(lambda: proxy.effects["request delayed"] > 1, PATIENCE_S, "it runs")
        began = time.monotonic()
        running.signal()
        running.ended()
        assert time.monotonic() - began < 4
        assert (answer.result().status_code, seq.count_dead() > 0) == (303, True), "it is answered, with some left"
    assert TOKEN not in running.stdout + running.stderr, "a token of one's own"


@pytest.mark.parametrize("command", ["consume", "run"])
def test_a_service_says_how_it_is(cli: Cli, scene: RunScene, command: str) -> None:
    scene.write_file("http = '256.0.0.1:1'", orders="n = 2")
    scene.append("orders", [{}, {}, {}])
    words = ["run", "sequencer.toml"] if command == "run" else ["consume", "orders", "--app", "shop:orders", "-n", 2]
    assert cli.run(*words, *(["--http", "9464"] if command == "consume" else [])).returncode == 2
    running = cli.start("--log-level", "INFO", *words, "--http", ANY)
    address = printed(running, r"at http://(\S+): /metrics")
    assert wait_ready(address) == {"ok": True, "queues_starting": [], "server_answers": True}
    status, live = asked(address, "/live")
    assert (status, live["ok"]) == (200, True)
    wait_until(lambda: metric(address, COUNT) >= 3, PATIENCE_S, "what ran is reported")
    assert metric(address, "sequencer_consumers_wanted") == 2
    assert asked(address, "/nothing")[0] == 404
    running.stop()


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
            wait_ready(address)
            for pid in (killed := master.pids):
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not {*killed} & {*master.pids}, PATIENCE_S, "they are gone")
            assert asked(address, "/ready")[0] == 200, "a consumer that is replaced is not the service's end"
            server.stop()
            assert wait_ready(address, 503) == {"ok": False, "queues_starting": [], "server_answers": False}
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
            seen.append(metric(address, COUNT))
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
