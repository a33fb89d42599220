"""Options, delays, give-up rules, URLs and server checks: pure decisions, each with its limits."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from sequencer.doctor.server import check_server, parse_info
from sequencer.drain.batch import BatchSize
from sequencer.drain.outcome import Decision, decide
from sequencer.errors import (
    ConfigurationError,
    DataError,
    Park,
    QueueFull,
    Retry,
    SequencerError,
    ServerNotUsable,
    ServerUnavailable,
)
from sequencer.net.endpoint import Endpoint
from sequencer.net.refusals import translate
from sequencer.net.urls import redact
from sequencer.settings.backoff import Backoff
from sequencer.settings.options import ClaimLimits, QueueOptions
from sequencer.settings.pace import BATCH_S, LEAD_S, TOO_LONG

from ..support.refused import refused

JITTER = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 10_000), JITTER)
def test_backoff_lies_between_half_and_all_of_the_doubled_base_up_to_the_cap(failures: int, random: float) -> None:
    delay = Backoff(0.5, 60).delay_s(failures, random)
    full = min(60.0, 0.5 * 2.0 ** min(failures - 1, 100))
    assert full / 2 <= delay <= full


@given(st.lists(st.tuples(st.integers(0, 1000), st.floats(0, 100), st.booleans()), max_size=50))
def test_a_batch_never_leaves_its_limits(batches: list[tuple[int, float, bool]]) -> None:
    size = BatchSize(ClaimLimits())
    for handled, elapsed_s, is_alone in batches:
        limits = size.next_limits(None)
        assert size.next_limits(3).messages == min(3, limits.messages), "no more than may still be handled"
        assert 1 <= limits.groups <= 100
        assert limits.groups <= limits.messages <= 500
        size.learn(min(handled, max(limits.messages, size.alone)), elapsed_s, is_alone=is_alone)
        assert 0 <= size.alone <= 500 * is_alone


def test_a_batch_doubles_while_quick_and_falls_to_one_message_of_one_group_when_slow() -> None:
    size = BatchSize(ClaimLimits())
    for expected in (1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 500):
        assert size.messages == expected
        size.learn(size.messages, 0.001)
    size.learn(1, 1.0)
    assert size.next_limits(None) == ClaimLimits(1, 1, ClaimLimits().bytes)


@given(st.floats(0.00001, 2.0), st.integers(1, 500))
def test_a_batch_comes_to_take_as_long_as_it_should(one_s: float, first: int) -> None:
    """Handlers that always take the same: the size is found, whatever it was before, and then stays."""
    size, sizes = BatchSize(ClaimLimits(), messages=first), []
    for _ in range(20):
        sizes.append(size.next_limits(None).messages)
        size.learn(sizes[-1], sizes[-1] * one_s)
    assert len(set(sizes[-8:])) == 1
    assert sizes[-1] * one_s <= max(BATCH_S * TOO_LONG, one_s)
    assert sizes[-1] * one_s >= BATCH_S / 2 or sizes[-1] == ClaimLimits().messages


def test_the_next_batch_is_claimed_at_once_only_where_handlers_are_quick_or_the_end_is_near() -> None:
    size = BatchSize(ClaimLimits(), messages=8)
    assert size.claims_after_s() is None
    size.learn(8, 0.0088)
    assert (size.is_quick, size.claims_after_s()) == (False, None), "from one batch nobody can tell"
    size.learn(8, 0.0090)
    assert size.claims_after_s() == pytest.approx(0.0088 - LEAD_S)
    size.learn(8, 0.002)
    assert size.is_quick
    assert size.claims_after_s() == 0.0
    size.learn(8, 0.0045)
    assert size.claims_after_s() == 0.0, "it is over sooner than a claim should set out before its end"
    size.learn(1, 0.2)
    assert size.claims_after_s() is None


def test_what_follows_from_a_failure() -> None:
    options = QueueOptions(queue="q", max_attempts=3, backoff_s=1, backoff_cap_s=10)
    assert decide(options, 1, ValueError(), 0.0).delay_s == 0.5
    assert decide(options, 2, ValueError(), 0.0).delay_s == 1.0
    assert decide(options, 3, ValueError(), 0.0) == Decision(None, "park")
    assert decide(options, 1, Retry(after=7), 0.0).delay_s == 7
    assert decide(options, 1, Retry(), 0.0).delay_s == 0.5
    assert decide(options, 1, Retry(after=0), 0.0).delay_s == 0
    assert decide(options, 3, Retry(after=7), 0.0) == Decision(None, "park")
    assert decide(options, 1, Park("why"), 0.0) == Decision(None, "park")


def test_an_error_that_is_to_park_and_to_be_set_aside_parks() -> None:
    """A class in one list may inherit from one in the other: holding the group back loses nothing of its order."""
    options = QueueOptions(queue="q", park_on=("ZeroDivisionError",), dead_letter_on=("ArithmeticError", "Park"))
    assert decide(options, 1, ZeroDivisionError(), 0.0) == Decision(None, "park")
    assert decide(options, 1, Park("why"), 0.0) == Decision(None, "park")
    assert decide(options, 1, OverflowError(), 0.0) == Decision(None, "dead")


@pytest.mark.parametrize(
    "url",
    [
        "redis://:canary@host:1/0",
        "rediss://u:canary%40x@h:2?ssl_cert_reqs=none",
        "unix://u@/tmp/s?password=canary&db=1",
        "redis://:can@canary@host",
        "redis://:canary@host:notaport",
        "redis://127.0.0.1:1/0?password=sec@canary",
        "redis://user:12/canary@host",
        *("redis+sentinel://:canary@h1,h2:2/n", "rediss+sentinel://h/n/1?sentinel_password=canary"),
        *("redis+sentinel://:canary@h:x/n", "redis+sentinel://:canary@h", "redis+sentinel://:canary,h/n"),
        *("valkey+sentinel://:a/canary@h/n", "redis+sentinel://h/n?sentinel_password=a@canary"),
        *("redis://:canary#x@host", "redis://:canary?x@host", "redis://user:canary#!@host/0"),
    ],
)
def test_a_password_in_a_url_never_shows(url: str) -> None:
    assert "canary" not in redact(url)
    try:
        shown = Endpoint.from_url(url).name
    except ConfigurationError as error:
        shown = "".join(traceback.format_exception(error))
    assert "canary" not in shown


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("", "url_empty"),
        ("h:6379", "url_scheme_unknown"),
        ("http://h", "url_scheme_unknown"),
        ("redis:/h", "url_scheme_unknown"),
        ("redis://h:99999999", "url_unreadable"),
        *((f"redis+{one}", "url_scheme_unknown") for one in ("sentinels://h/n", "tls://h", "sentinel:/h/n")),
        ("unix+sentinel://h/n", "url_scheme_unknown"),
        *(
            (f"redis+sentinel://{one}", "sentinel_url_unreadable")
            for one in ("", "h", "h/", "h:x/n", "h,/n", "/n", "h i/n")
        ),
        *(
            (f"redis+sentinel://h/n{one}", "sentinel_url_unreadable")
            for one in ("/x", "/0/1", "?db=-1", "?nope=1", "#n")
        ),
    ],
)
def test_a_bad_url_is_refused(url: str, code: str) -> None:
    with refused(ConfigurationError, code):
        Endpoint.from_url(url)


@pytest.mark.parametrize("client", [7, object(), redis.ConnectionPool()])
def test_a_thing_that_is_no_client_is_refused(client: Any) -> None:
    with refused(ConfigurationError, "redis_invalid", kind=type(client).__name__):
        Endpoint.from_client(client)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'.", QueueFull),
        ("NOAUTH Authentication required.", ServerNotUsable),
        ("NOPERM this user has no permissions to run the 'evalsha' command", ServerNotUsable),
        ("LOADING Redis is loading the dataset in memory", ServerUnavailable),
        ("BUSY Redis is busy running a script.", ServerUnavailable),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", DataError),
        ("ERR unknown command 'BLPOP'", ServerNotUsable),
        ("ERR something else", DataError),
    ],
)
def test_each_answer_of_the_server_becomes_an_error_of_ours(reply: str, kind: type[SequencerError]) -> None:
    error = translate(given := redis.ResponseError(reply), "here")
    assert error.__cause__ is given
    assert type(error) is kind
    assert error.fields["server"] == "here"


def test_a_lost_connection_is_a_server_that_can_not_be_reached() -> None:
    for error in (redis.ConnectionError("refused"), redis.TimeoutError("slow"), OSError(111, "refused")):
        assert isinstance(translate(error, "here"), ServerUnavailable)
    assert translate(redis.ConnectionError("Connection refused."), "here").fields["error"] == "Connection refused"


@pytest.mark.parametrize(
    ("info", "code"),
    [
        ({"redis_version": "6.2.16"}, "is_too_old"),
        ({"redis_version": "7.0", "role": "slave"}, "is_replica"),
        ({"redis_version": "7.0", "cluster_enabled": "1"}, "is_cluster"),
        ({"redis_version": "7.0", "maxmemory": "1000", "maxmemory_policy": "allkeys-lru"}, "is_evicting"),
    ],
)
def test_a_server_that_would_lose_data_is_refused(info: dict[str, str], code: str) -> None:
    with refused(ServerNotUsable, code, server="here"):
        check_server(info, "here")


def test_a_good_server_passes() -> None:
    check_server({"redis_version": "7.0.0", "role": "master", "maxmemory": "0", "maxmemory_policy": "allkeys-lru"}, "x")
    for policy in ("noeviction", "volatile-lru", "volatile-ttl"):
        check_server({"redis_version": "7.2.4", "maxmemory": "5", "maxmemory_policy": policy}, "x")
    check_server(parse_info("# Server\r\nredis_version:9.1.2\r\nrole:master\r\n"), "x")
    with refused(ServerUnavailable, "is_loading"):
        check_server({"redis_version": "7.0", "loading": "1"}, "x")
