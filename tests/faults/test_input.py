"""Input: the real product in small, and negative control of it, each of which must turn red."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from sequencer.errors import InvalidBody

from .input import calls as input_calls
from .input import cli as input_cli
from .input import fault_test as fault_test
from .input import records as input_records
from .input.bench import Bench, bench
from .input.cli import Line
from .input.explore import Findings, Several, Target, Wrong, explore, refusal, shown

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def made() -> Iterator[Bench]:
    """A server of its own: everything on it is deleted."""
    with bench() as running:
        yield running


def found_by(target: Target) -> str:
    """What a target finds, as one text."""
    findings = Findings()
    for seed in range(2):
        explore(target, seed, findings)
    assert findings.tried[target.name] > 0
    return "\n".join(findings.problems.values())


def of(targets: list[Target], name: str) -> Target:
    return next(target for target in targets if target.name == name)


def test_every_target_runs_and_takes_effect(made: Bench) -> None:
    findings = Findings()
    for target in fault_test.all_targets(made):
        explore(replace(target, examples=min(target.examples, 10)), 0, findings, attempts=1)
    assert findings.problems == {}
    assert set(fault_test.EFFECTS) <= set(findings.effects)


def test_every_command_is_fuzzed() -> None:
    assert input_cli.all_commands() == set(input_cli.COMMANDS) | input_cli.PROCESSES


# -- negative control
# -----------------------------------------------------------------------------------------------------


class HalfWriting:
    """A client whose append writes the place of a message, and then finds out that it must refuse it."""

    def __init__(self, client: Any, made: Bench) -> None:
        self._client, self._made = client, made

    def append(self, body: Any, group: Any = None, **more: Any) -> Any:
        receipt = refusal(lambda: self._client.append(body, group, **more))
        if receipt is not None:
            raise receipt
        self._made.link.command("HDEL", self._made.keys.body("g"), "a")
        raise InvalidBody("it is too late")

    def append_many(self, *_: Any, **__: Any) -> Any:
        raise InvalidBody("not tried")


def test_a_half_writing_append_is_caught(made: Bench) -> None:
    target = of(input_calls.targets(made), "appends on a server")
    check = partial(input_calls.check_appends, bench=made, wrap=lambda client: HalfWriting(client, made))
    assert "a refused append leaves something" in found_by(replace(target, check=check))


def test_a_method_that_lets_out_a_foreign_error_is_caught(made: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_client: Any, _made: Bench) -> dict[str, Any]:
        return {"info": [].pop, "peek": {}.popitem}

    monkeypatch.setattr(input_records, "methods", broken)
    with pytest.raises(Several) as caught:
        input_records.check_records(({}, [input_records.Damage("SET", "@clock", b"1")]), made)
    assert [type(error) for error in caught.value.errors] == [IndexError, KeyError]


@pytest.mark.parametrize(
    ("code", "out", "err", "rule"),
    [
        (1, "", "Traceback (most recent call last):\n  File ...\nValueError: x\n", "a traceback"),
        (7, "", "error: x\n", "an exit code of its own"),
        (2, "", "", "an error without a word"),
        (2, "", "error: a\nb\n", "an error of more than one line"),
        (0, "\x1b[2J", "", "a control character"),
    ],
)
def test_a_bad_end_of_a_command_is_caught(code: int, out: str, err: str, rule: str) -> None:
    with pytest.raises(Wrong, match=rule):
        input_cli.judge(Line(("info",)), code, out, err)


def test_the_same_seed_gives_the_same_inputs() -> None:
    seen: list[list[Any]] = []
    for seed in (5, 5, 6):
        some: list[Any] = []
        explore(Target("lines", input_cli.lines(), lambda value: some.append(shown(value))), seed, Findings())  # noqa: B023
        seen.append(some)
    assert seen[0] == seen[1] != seen[2]
