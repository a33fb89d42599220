"""Whole calls of `append` and `append_many` on a real server: what is refused leaves nothing, not a half; what is
accepted is read back as it was sent.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from sequencer.client import Sequencer
from sequencer.errors import BatchRefused, InvalidMessage, SequencerError
from sequencer.store.envelope import decode_envelope, encode_envelope

from . import strategies as inputs
from .bench import Bench

QUEUES: list[dict[str, Any]] = [
    {},
    {"group_by": ("user", "order"), "id_by": "id", "score_by": "ts"},
    {"on_late": "refuse"},
    {"on_late": "dead_letter", "dedup_window": 0.0},
    {"sequence": True},
    {"max_body_bytes": 40},
    {"reorder_window": 5.0},
]
"""Options of queues, so that every way through the scripts is walked."""
Call = tuple[str, Any]
"""`append` with its arguments, or `append_many` with (items, on_refused, replace)."""


def check_appends(given: tuple[int, Sequence[Call]], bench: Bench, wrap: Any = None) -> bool:
    """Run some calls on an empty queue; whether any was refused. `wrap` puts a negative control around the client."""
    options, calls = given
    is_refused = False
    bench.clear()
    with bench.client(**QUEUES[options]) as client:
        client.connect()
        for name, arguments in calls:
            before = bench.everything()
            try:
                _call(wrap(client) if wrap else client, client, name, arguments)
            except SequencerError as error:
                _check_refused(bench, before, error)
                is_refused = True
            assert bench.audit() == [], f"{name} leaves the data broken"
    return is_refused


def _call(used: Any, client: Sequencer, name: str, arguments: Any) -> None:
    if name == "append":
        receipt = used.append(**arguments)
        if receipt.outcome == "stored":
            _check_stored(client, receipt.id, arguments)
        return
    items, on_refused, replace = arguments
    receipt = used.append_many(items, on_refused=on_refused, replace=replace)
    counted = receipt.appended + receipt.duplicates + len(receipt.refused) + receipt.dropped + receipt.dead
    assert counted == len(items), f"a batch loses count: {receipt!r:.200}"


def _check_refused(bench: Bench, before: Mapping[bytes, bytes], error: SequencerError) -> None:
    if isinstance(error, BatchRefused) and error.stored:
        return
    after = bench.everything()
    if not isinstance(error, InvalidMessage):  # the server said no: it may count that
        noisy = {name for name in {*before, *after} if name.endswith((b":clock", b":stats", b":memory"))}
        before, after = ({k: v for k, v in side.items() if k not in noisy} for side in (before, after))
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    assert not changed, f"a refused append leaves something: {type(error).__name__}"


def _check_stored(client: Sequencer, message_id: str, arguments: Mapping[str, Any]) -> None:
    body, wanted_id = arguments["body"], arguments.get("id")
    group: Any = arguments.get("group")
    if group is None and client.options.group_by:
        group = [body[name] for name in client.options.group_by]
        wanted_id = wanted_id if wanted_id is not None else body["id"]
    parts = group_texts(group)
    found = [message for message in client.peek(group, limit=1000) if message.id == message_id]
    assert parts is not None
    assert is_finite(body)
    (message,) = found
    sent = decode_envelope(encode_envelope(body, arguments.get("headers"), 2**20))
    assert (message.group, message.body, message.headers) == (parts, *sent)
    assert wanted_id is None or message.id == part_text(wanted_id)
    score = arguments.get("score")
    assert not isinstance(score, int | float) or message.score == score


# -- what must be refused -------------------------------------------------------------------------------------


def is_text(text: str) -> bool:
    return not any(0xD800 <= ord(char) <= 0xDFFF for char in text)


def part_text(part: Any) -> str | None:
    """What a part of a group stands for; None for one that must be refused."""
    if isinstance(part, bool) or not isinstance(part, str | int | UUID):
        return None
    value = part.value if isinstance(part, enum.Enum) else part
    if isinstance(value, int) and value.bit_length() > 10_000:
        return None
    text = str(value)
    return text if text and is_text(text) else None


def group_texts(group: Any) -> tuple[str, ...] | None:
    """The parts of a group as text, None for one that must be refused (its length aside)."""
    parts = (group,) if isinstance(group, str | int | UUID) else group
    if not isinstance(parts, list | tuple) or not parts:
        return None
    texts = [part_text(part) for part in parts]
    return None if None in texts else tuple(text for text in texts if text is not None)


def is_finite(value: Any) -> bool:
    """Whether there is no NaN and no infinity anywhere in it."""
    if isinstance(value, enum.Enum):
        return is_finite(value.value)
    if isinstance(value, float):
        return math.isfinite(value)
    if is_dataclass(value) and not isinstance(value, type):
        return all(is_finite(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, Mapping):
        return all(is_finite(item) for item in value.values())
    return all(is_finite(item) for item in value) if isinstance(value, list | tuple) else True


# -- inputs ---------------------------------------------------------------------------------------------------


def appends() -> Any:
    """Which queue, and some calls on it: mostly good ones on few groups and ids, so that they meet."""
    few = st.sampled_from([["g"], ["g", 1], ["g:1"], "h\n"])
    scores = st.one_of(st.none(), st.integers(0, 6), inputs.scores)
    names = st.one_of(st.sampled_from(["a", "b", 1, "1"]), st.none(), inputs.ids)
    plain = {"user": 1, "order": "o", "id": "x", "ts": 5}
    bodies = st.one_of(st.sampled_from([{"n": 1}, plain, {**plain, "ts": None}, None]), inputs.bodies)
    fields: dict[str, Any] = {"group": st.one_of(few, inputs.groups), "id": names, "score": scores}
    fields |= {"headers": inputs.headers, "delay": inputs.times, "at": inputs.times}
    mostly = {name: st.one_of(st.none(), strategy) for name, strategy in fields.items() if name != "group"}
    good = {
        "body": st.just({"n": 1}),
        "group": few,
        "id": st.sampled_from(["a", "b", None]),
        "score": st.integers(0, 6),
    }
    item = st.one_of(
        st.fixed_dictionaries(good),
        st.fixed_dictionaries({"body": bodies}, optional=fields),
        st.fixed_dictionaries({"body": bodies, "group": few}, optional=mostly),
    )
    items = st.lists(st.one_of(item, st.just(plain), inputs.anything), max_size=6)
    replace = st.booleans()
    one = st.builds(lambda given, flag: ("append", {**given, "replace": flag}), item, replace)
    many = st.tuples(items, st.sampled_from(["stop", "skip"]), replace).map(lambda given: ("append_many", given))
    return st.tuples(st.sampled_from(range(len(QUEUES))), st.lists(st.one_of(one, many), min_size=1, max_size=4))
