"""Whatever is passed, or stored by others: no error but our own, and nothing half written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from sequencer.errors import InvalidBody

from ..support.examples import examples
from .input import calls, records
from .input.bench import Bench, bench

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def made() -> Iterator[Bench]:
    """A server of its own: everything on it is deleted."""
    with bench() as running:
        yield running


def search(inputs: Any, check: Callable[[Any], bool], at_night: int) -> None:
    """Give inputs to a check, which says whether anything took effect; it must have, with some of them."""
    took_effect = Counter[bool]()

    @settings(max_examples=examples(at_night), suppress_health_check=list(HealthCheck))
    @given(inputs)
    def one(value: Any) -> None:
        took_effect[check(value)] += 1

    one()
    assert took_effect[True]


def test_an_append_is_whole_or_leaves_nothing(made: Bench) -> None:
    search(calls.appends(), lambda value: calls.check_appends(value, made), 1000)


def test_records_changed_by_others_raise_our_own_errors(made: Bench) -> None:
    search(records.changes(), lambda value: records.check_records(value, made), 150)


# -- negative controls ------------------------------------------------------------------------------------------------


class HalfWriting:
    """A client whose append writes the place of a message, and then finds out that it must refuse it."""

    def __init__(self, client: Any, made: Bench) -> None:
        self._client, self._made = client, made

    def append(self, body: Any, group: Any = None, **more: Any) -> Any:
        self._client.append(body, group, **more)
        self._made.link.command("HDEL", self._made.keys.body("g"), "a")
        raise InvalidBody("it is too late")


def test_a_half_writing_append_is_caught(made: Bench) -> None:
    one = ("append", {"body": 1, "group": ["g"], "id": "a"})
    with pytest.raises(AssertionError, match="a refused append leaves something"):
        calls.check_appends((0, [one]), made, lambda client: HalfWriting(client, made))


def test_a_method_that_lets_out_a_foreign_error_is_caught(made: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "methods", lambda *_: {"info": {}.popitem})
    with pytest.raises(KeyError):
        records.check_records(({}, [records.Damage("SET", "@clock", b"1")]), made)
