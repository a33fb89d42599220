"""Which server a client takes: one that evicts only keys of others, and the embedded one never by mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import redis

import sequencer
from sequencer import Sequencer
from sequencer.errors import ConfigurationError, QueueFull


@pytest.mark.parametrize("policy", ["volatile-lru", "volatile-ttl"])
def test_a_server_that_evicts_only_keys_with_a_time_to_live_is_taken_and_loses_nothing(
    start_server: Callable[..., str], policy: str
) -> None:
    """Others' keys go; then it is full for producers, and consumers drain it."""
    path = start_server("--maxmemory", "8mb", "--maxmemory-policy", policy)
    with redis.Redis(unix_socket_path=path) as others, Sequencer("q", f"unix://{path}") as seq:
        for n in range(20):
            others.set(f"cache:{n}", "x" * 10_000, ex=3600)
        stored = 0
        with pytest.raises(QueueFull):
            for n in range(10_000):
                seq.append("x" * 10_000, group=n % 7, id=n)
                stored += 1
        assert others.keys("cache:*") == []
        assert seq.consume(lambda message: None, until_empty=True).handled == stored > 0


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"SEQUENCER_REDIS": ""}, "SEQUENCER_REDIS is empty; set it to the server's URL, or unset it for the embedded"),
        ({"SEQUENCER_REDIS": " "}, "SEQUENCER_REDIS is empty"),
        ({"SEQUENCER_EMBEDDED": "never"}, "SEQUENCER_EMBEDDED=never: set SEQUENCER_REDIS to the server's URL"),
        ({"SEQUENCER_EMBEDDED": ""}, "SEQUENCER_EMBEDDED='' is neither 'never' nor 'yes'"),
    ],
)
def test_the_embedded_server_is_not_taken_by_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], said: str
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("SEQUENCER_HOME", str(home))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=said):
        Sequencer("q").connect()
    with pytest.raises(ConfigurationError, match=said):
        sequencer.list_queues()
    assert not home.exists()
