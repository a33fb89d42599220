"""The fault_test of input on the real product in small, and on negative control of it, each of which must turn red."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from sequencer.calls.call import Call
from sequencer.errors import InvalidBody
from sequencer.store.envelope import encode_envelope, encode_id, encode_score
from sequencer.store.keys import shard_keys

from .input import calls as input_calls
from .input import cli as input_cli
from .input import fault_test as fault_test
from .input import records as input_records
from .input import replies as input_replies
from .input import settings as input_settings
from .input import values as input_values
from .input.bench import Bench, bench
from .input.cli import Line
from .input.explore import Findings, Several, Target, Wrong, explore, refusal, shown
from .input.fuzz import INSTALL, is_installed, run_fuzzer

pytestmark = pytest.mark.nightly

SEEDS = range(2)


@pytest.fixture(scope="module")
def made() -> Iterator[Bench]:
    """A server of the fault_test's own: it deletes everything on it."""
    with bench() as running:
        yield running


def found_by(target: Target, seeds: Any = SEEDS) -> str:
    """What a target finds, as one text."""
    findings = Findings()
    for seed in seeds:
        explore(target, seed, findings)
    assert findings.tried[target.name] > 0
    return "\n".join(findings.problems.values())


def of(targets: list[Target], name: str) -> Target:
    return next(target for target in targets if target.name == name)


# -- the product ------------------------------------------------------------------------------------------------------


VALUES = [*input_values.targets(), *input_settings.targets()]


@pytest.mark.parametrize("target", VALUES, ids=lambda target: target.name)
def test_no_value_breaks_the_product(target: Target) -> None:
    assert found_by(target) == ""


def test_every_target_runs_and_takes_effect(made: Bench) -> None:
    findings = Findings()
    for target in fault_test.all_targets(made):
        explore(replace(target, examples=min(target.examples, 6)), 0, findings, attempts=1)

    assert findings.problems == {}
    assert set(findings.tried) == {target.name for target in fault_test.all_targets(made)}
    assert {"bad value refused", "append refused", "record changed", "command refused"} <= set(findings.effects)


def test_every_command_is_fuzzed() -> None:
    assert input_cli.all_commands() == set(input_cli.COMMANDS) | input_cli.PROCESSES


def test_the_fuzzer_reports_what_it_ran() -> None:
    if not is_installed():
        pytest.skip(f"atheris is not installed: {INSTALL}")
    findings = Findings()

    done = run_fuzzer("records", 1.0, 2000, 3, findings)

    assert (done.executions, done.problems, findings.problems) == (2000, (), {})
    assert done.coverage > 10


def test_without_a_fuzzer_or_hypothesis_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_test, "is_installed", lambda: False)
    assert "--group fuzz" in fault_test._fuzz(Findings(), fault_test.PLANS["smoke"], 0)["coverage-guided"]

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = fault_test.run("smoke")

    assert "hypothesis is missing" in result.skipped
    assert not result.is_passed


# -- negative control of values
# -------------------------------------------------------------------------------------------


def test_a_group_joined_without_escaping_is_caught() -> None:
    target = of(input_values.targets(), "groups")
    broken = partial(input_values.check_groups, encode=lambda group: ":".join(map(str, group)))

    assert "a group does not come back" in found_by(replace(target, check=broken))


def test_colliding_groups_are_caught() -> None:
    broken = partial(input_values.check_groups, encode="_".join, decode=lambda text: ("a_b", "c"))

    with pytest.raises(Wrong, match="does not come back"):
        broken((["a", "b_c"], ["a_b", "c"]))
    with pytest.raises(Wrong, match="collide"):
        input_values.check_groups((["a", "b"], ["c"]), encode=lambda _: "k", decode=_decode_in_turn())


def _decode_in_turn() -> Any:
    answers = iter([("a", "b"), ("c",)])
    return lambda _: next(answers)


def test_a_parser_that_raises_keyerror_is_caught() -> None:
    def decode(envelope: bytes) -> tuple[Any, dict[str, str]]:
        raise KeyError("body")

    target = of(input_values.targets(), "bodies")

    assert "KeyError: 'body'" in found_by(replace(target, check=partial(input_values.check_body, decode=decode)))


def test_scores_ids_and_bodies_of_broken_controls_are_caught() -> None:
    targets = input_values.targets()

    def clipped(score: Any) -> str:
        text = encode_score(score)
        return f"{float(text):.3g}"

    def lax(body: Any, headers: Any, limit: int) -> bytes:
        return encode_envelope(None if isinstance(body, float) and body != body else body, headers, limit)

    scores = replace(of(targets, "scores"), check=partial(input_values.check_scores, encode=clipped))
    ids = replace(of(targets, "ids"), check=partial(input_values.check_id, encode=lambda value: encode_id(value)[:2]))

    assert "a score is not its number" in found_by(scores)
    assert "an id is not its own text" in found_by(ids)
    with pytest.raises(Wrong, match="a body with NaN or infinity is accepted"):
        input_values.check_body((float("nan"), None), encode=lax)


def test_a_shown_password_is_caught() -> None:
    target = of(input_settings.targets(), "passwords in URLs")
    broken = partial(input_settings.check_secret, shorten=lambda url: url.replace("://:", "://"))

    assert "a password is shown" in found_by(replace(target, check=broken))


def test_a_reply_parser_that_raises_is_caught() -> None:
    def parse(reply: Any) -> Any:
        raise RuntimeError(reply)  # not one of those that damaged data can raise

    call: Call[Any] = Call("ack", (shard_keys("n", "q", 0).schedule,), (), parse)

    with pytest.raises(RuntimeError):
        input_replies.check_reply(("ack", b"1"), known={"ack": call})


# -- negative control on a server
# -----------------------------------------------------------------------------------------


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

    found = found_by(replace(target, check=check), [0])

    assert "a refused append leaves something" in found


class Forgetting:
    """A client that says "stored" for what it stores under another body."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def append(self, body: Any, group: Any = None, **more: Any) -> Any:
        return self._client.append([body], group, **more)

    append_many = HalfWriting.append_many


def test_a_message_that_comes_back_otherwise_is_caught(made: Bench) -> None:
    check = partial(input_calls.check_appends, bench=made, wrap=Forgetting)

    with pytest.raises(Wrong, match="not what is there"):
        check((0, [("append", {"body": 1, "group": ["g"]})]))


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
        (-11, "", "", "an exit code of its own"),
        (2, "", "", "an error without a word"),
        (2, "", "error: a\nb\n", "an error of more than one line"),
        (0, "\x1b[2J", "", "a control character"),
    ],
)
def test_a_bad_end_of_a_command_is_caught(code: int, out: str, err: str, rule: str) -> None:
    with pytest.raises(Wrong, match=rule):
        input_cli.judge(Line(("info",)), code, out, err)


def test_a_command_in_this_process_is_the_one_of_the_console(made: Bench) -> None:
    made.clear()
    line = Line(("append", "jobs", "--namespace", "input"), b'{"group":"g","body":1}\n{"group":"g"}\n')

    here, there = input_cli.run_here(line, made.url), input_cli.run_process(line, made.url, str(made.directory))

    assert here[0] == there[0] == 2
    assert here[2] == there[2]
    assert "error: line 2:" in here[2]


# -- the engine -------------------------------------------------------------------------------------------------------


def _noter(to: list[Any]) -> Any:
    return lambda value: to.append(shown(value))


def test_the_same_seed_gives_the_same_inputs() -> None:
    seen: list[list[Any]] = []
    for seed in (5, 5, 6):
        some: list[Any] = []
        explore(replace(input_values.targets()[0], check=_noter(some)), seed, Findings())
        seen.append(some)

    assert seen[0] == seen[1] != seen[2]


def test_one_problem_does_not_hide_the_next_and_says_how_to_repeat_it() -> None:
    def check(value: Any) -> None:
        if isinstance(value[0], list):
            raise Wrong("lists")
        raise KeyError("x")

    findings = Findings()
    explore(replace(input_values.targets()[0], check=check), 17, findings)

    text = "\n".join(findings.problems.values())
    assert "-> lists" in text
    assert "-> KeyError: 'x'" in text
    assert text.count("repeat: python -m tests.faults input --seed 17") == 2


def test_an_integer_that_python_does_not_write_is_shown() -> None:
    assert shown([10**5000]) == "[<an int of 16610 bits>]"
