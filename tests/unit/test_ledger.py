"""The ledger as bytes: it comes back, its caps, what is refused; and the moves of a step, against the model's table."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.store.ledger import (
    MAX_KEY,
    MAX_STAMP,
    MOVES,
    Entry,
    Ledger,
    LedgerError,
    State,
    decode_ledger,
    encode_ledger,
    kept_result,
    step_key,
)
from sequencer.values.message import PastAttempt

from ..support.refused import refused
from ..support.steps_model import ledger as model
from .test_envelope_and_record import JSON, TEXT

STAMPS, COUNTS = st.integers(0, MAX_STAMP), st.integers(0, 999_999)
TIMES = st.floats(0, 1e11)
WHO = st.tuples(st.just(""), STAMPS) | st.tuples(TEXT.filter(bool), st.just(0))
ENTRIES = st.builds(
    lambda name, who, **rest: Entry(name, who=who[0], token=who[1], **rest),
    TEXT.filter(bool),
    who=WHO,
    once=st.booleans(),
    optional=st.booleans(),
    state=st.sampled_from(get_args(State)),
    attempts=COUNTS,
    turn=st.integers(1, 999_999),
    at=TIMES,
    took_s=TIMES,
    result=JSON,
    error=st.text(max_size=600),
)
LOGS = st.lists(st.builds(PastAttempt, COUNTS, TIMES, st.text(max_size=300)), max_size=5).map(tuple)
LEDGERS = st.builds(Ledger, STAMPS, st.lists(ENTRIES, max_size=5, unique_by=lambda entry: entry.name).map(tuple), LOGS)
DONE = Entry(
    "charge", once=True, state="done", attempts=1, turn=2, token=7, at=1.5, took_s=0.2, result={"payment": "p9"}
)


@pytest.mark.slow
@given(LEDGERS)
def test_a_ledger_comes_back(ledger: Ledger) -> None:
    assert decode_ledger(encode_ledger(ledger)) == ledger


def test_a_ledger_is_short_and_says_what_it_is() -> None:
    ledger = Ledger(1_795_170_870_982_084, (DONE, Entry("mail", optional=True))).logged(1, 2.5, "E: no")
    assert encode_ledger(ledger) == (
        b'{"k":1795170870982084,"s":[["charge","1","d",1,0,2,7,1.5,0.2,{"payment":"p9"}],'
        b'["mail","o","o",0,0,1,0,0.0,0.0]],"log":[[1,2.5,"E: no"]]}'
    )
    assert (ledger.has_effects, ledger.results) == (True, {"charge": {"payment": "p9"}})


@pytest.mark.parametrize(
    ("ledger", "code"),
    [
        (Ledger(1, tuple(Entry(f"s{n}") for n in range(65))), "too_many_steps"),
        (Ledger(1, tuple(Entry(f"s{n}", result="x" * 16_000) for n in range(5))), "too_large"),
        (Ledger(1, (Entry("\ud800"),)), "not_json"),
        (Ledger(-1), "ledger_damaged"),
        (Ledger(1, log=(PastAttempt(1, 1.0, ""),) * 6), "ledger_damaged"),
        *((Ledger(1, entries), "ledger_damaged") for entries in (
            (Entry("a"), Entry("a")), (Entry(""),), (Entry("a", attempts=-1),), (Entry("a", token=10**16),)
        )),
    ],
)  # fmt: skip
def test_what_passes_a_cap_is_refused(ledger: Ledger, code: str) -> None:
    with refused(LedgerError, code):
        encode_ledger(ledger)


@pytest.mark.parametrize(
    ("result", "code", "fields"),
    [
        ("x" * 16_384, "too_large", {"size": 16_386, "most": 16_384}),
        (math.inf, "not_finite", {"name": "result"}),
        (object(), "not_json", {"name": "result"}),
    ],
)
def test_a_result_that_can_not_be_kept_is_refused(result: Any, code: str, fields: dict[str, Any]) -> None:
    with refused(LedgerError, code, **fields):
        kept_result(result)


def test_errors_are_cut_and_the_log_keeps_the_last_five() -> None:
    assert Entry("a", error="é" * 300).error == "é" * 256
    assert replace(Entry("a"), error="\ud800x").error == "\\ud800x"
    assert Ledger(1).logged(1, 1.0, "x" * 300).log[0].error == "x" * 200
    ledger = Ledger(1)
    for n in range(7):
        ledger = ledger.logged(n, 1.0, "")
    assert [one.attempt for one in ledger.log] == [2, 3, 4, 5, 6]


GOOD = [["a", "a", "o", 0, 0, 1, 0, 0.0, 0.0]]
OTHERS: list[Any] = [None, [], {}, -1, "zz"]
BAD: list[Any] = [
    *({"k": 1}, {"k": 1, "s": 5}, {"k": 1, "s": [], "log": {}}, {"k": 1, "s": [], "x": 1}, {"k": "1", "s": []}),
    *({"k": 1, "s": [[]]}, {"k": 1, "s": [7]}, {"k": 1, "s": GOOD * 2}, {"k": 1, "s": [], "log": [[1, 2.5]]}),
    *[
        {"k": 1, "s": [[*GOOD[0][:at], other, *GOOD[0][at + 1 :]]]}
        for at in range(9)
        for other in OTHERS
        if (at, str(other)) not in {(0, "zz"), (6, "zz"), (7, "-1"), (8, "-1")}
    ],
]


@pytest.mark.parametrize("words", BAD, ids=repr)
def test_foreign_bytes_are_no_ledger(words: Any) -> None:
    with pytest.raises(LedgerError):
        decode_ledger(orjson.dumps(words))


@given(st.binary(max_size=60) | JSON.map(orjson.dumps) | st.just({"k": 1, "s": GOOD}).flatmap(
    lambda words: st.tuples(st.integers(0, 60), st.binary(max_size=3)).map(
        lambda cut: orjson.dumps(words)[: cut[0]] + cut[1] + orjson.dumps(words)[cut[0] + 1 :]
    )
))  # fmt: skip
def test_no_bytes_raise_anything_else(text: bytes) -> None:
    with suppress(LedgerError):
        encode_ledger(decode_ledger(text))


# -- moves ---------------------------------------------------------------------------------------------------------


def test_the_table_is_that_of_the_model() -> None:
    assert {by: {state: set(to) for state, to in table.items()} for by, table in MOVES.items()} == model.MOVES


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("by", ["", "person"])
@pytest.mark.parametrize("error", ["", "too large"])
def test_a_step_moves_as_in_the_model(once: bool, by: str, error: str) -> None:
    for state, to in product(get_args(State), repeat=2):
        here = Entry("charge", once=once, state=state, error=error, token=3)
        there = model.Entry("charge", once=once, state=state, error=error, token=3)
        try:
            expected = there.moved(to, by=by)
        except model.LedgerError:
            with refused(LedgerError, "step_not_moved", step="charge", state=state, to=to):
                here.moved(to, by=by)
            continue
        moved = here.moved(to, by=by)
        assert (moved.state, moved.kind, moved.has_effects) == (expected.state, expected.kind, expected.has_effects)
        assert moved.token == (0 if by == "person" else 3)


# -- the key ---------------------------------------------------------------------------------------------------------


def test_a_key_is_that_of_the_model_and_says_the_turn() -> None:
    key = step_key("gifts", "ann", "g7", 1_795_170_870_982_084, Entry("charge"))
    assert key == "gifts/ann/g7/1795170870982084/charge"
    assert step_key("gifts", ["ann"], "g7", 1_795_170_870_982_084, Entry("charge", turn=2)) == f"{key}#2"
    assert step_key("a/b", ["x:y", "é"], "g#7", 1, Entry("c d")) == model.key(
        "a/b", "x%3Ay:é", "g#7", 1, model.Entry("c d")
    )


@given(TEXT, st.lists(TEXT.filter(bool), min_size=1, max_size=3), st.text(max_size=120), STAMPS, TEXT)
def test_a_key_is_printable_ascii_of_at_most_200_characters(
    queue: str, group: list[str], message_id: str, stamp: int, name: str
) -> None:
    message_id = message_id.encode("utf-8", "replace").decode() + "\udcff"
    key = step_key(queue, group, message_id, stamp, Entry(name))
    assert len(key) <= 200
    assert key.isascii()
    assert key.isprintable()


def test_a_long_key_ends_with_a_digest_of_all_of_it() -> None:
    keys = {step_key("q", "g", "x" * 300 + str(n), 1, Entry("charge", turn=n + 1)) for n in range(3)}
    assert len(keys) == 3
    assert {key[:101] for key in keys} == {"q/g/" + "x" * 96 + "~"}
    assert {len(key) for key in keys} == {133}
    assert MAX_KEY == 200
