"""`sequencer web`: it listens, prints its URL with a token, and ends."""

from __future__ import annotations

import signal
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest

from sequencer.testing import wait_until

from ..support.run_scene import PATIENCE_S
from .conftest import Cli

pytestmark = pytest.mark.slow


def test_it_prints_a_url_that_lets_in_and_ends_with_a_tab_open(cli: Cli) -> None:
    running = cli.start("web", "--port", 0)
    wait_until(lambda: "token=" in running.stdout, PATIENCE_S, "the URL is printed")
    url = running.stdout.strip()
    place = f"http://{urlsplit(url).netloc}/"
    with httpx.Client() as browser:
        assert browser.get(place).status_code == 401
        answer = browser.get(url, follow_redirects=True)
        assert (answer.status_code, str(answer.url)) == (200, place)
        assert browser.get(place, headers={"Host": "evil.example"}).status_code == 400
        running.signal(signal.SIGTERM)  # while the browser keeps its connection
        assert running.ended() in (0, -signal.SIGTERM)
    assert "Traceback" not in running.stderr


def test_a_token_of_ones_own_is_not_printed(cli: Cli) -> None:
    running = cli.start("web", "--port", 0, "--read-only", SEQUENCER_WEB_TOKEN="sixteen-characters")
    wait_until(lambda: running.stdout.endswith("/\n"), PATIENCE_S, "the URL is printed")
    place = running.stdout.strip()
    headers = {"Authorization": "Bearer sixteen-characters"}
    assert httpx.get(place, headers=headers).status_code == 200
    assert httpx.post(f"{place}q/jobs/pause", headers=headers).status_code == 403
    taken = cli.call("web", "--port", urlsplit(place).port)
    assert (taken.returncode, "Traceback" in taken.stderr) == (2, False)
    running.signal(signal.SIGINT)
    assert running.ended() in (0, 130, -signal.SIGINT)
    assert "sixteen-characters" not in running.stdout + running.stderr
