"""`explain`: each reason with its sentence and the time until the group moves, from what the server says."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.calls.examine import GroupFacts, HeldBack
from sequencer.errors import StepUnknown
from sequencer.queue.explain import explanation, missing_number, with_commands, with_no_consumers
from sequencer.settings.options import QueueOptions
from sequencer.settings.policy import Policy
from sequencer.store.failure import encode_failure, log_of
from sequencer.store.keys import PAUSED
from sequencer.texts.explanations import no_consumers_text
from sequencer.values.message import Failure
from sequencer.values.owner import NoConsumers

NOW = 1_700_000_100_000_000
STAMP = "1700000099000000"
MEMBER = f"{STAMP}m1"
LEASE = b"1700000098000000" + b"1host-7"
FAILURE = encode_failure(Failure("m1", "ValueError", "no\nstock", "", 3, 0.0, "host-7"), MEMBER)
QUESTION = StepUnknown(
    "step charge began, and its end is not known",
    ("charge",),
    "sequencer resume shop user 1:2 --done charge",
    "sequencer resume shop user 1:2 --again charge",
)
ASKED = encode_failure(Failure("m1", "StepUnknown", str(QUESTION), "", 3, 0.0, "host-7"), MEMBER)
SOUND = GroupFacts(
    now_us=NOW,
    visible_us=NOW - 2_000_000.0,
    lease=b"",
    failure=b"",
    is_paused=False,
    is_queue_paused=False,
    order_size=2,
    body_size=2,
    head=MEMBER,
    head_score="7",
    head_record=f"{STAMP}00000[1]".encode(),
    mark="",
    member="",
    score="",
    record=b"",
    is_handled=False,
)
LATER, INF = NOW + 5_000_000.0, math.inf
AT = "2023-11-14 22:15:05.000"
GAP, SKIP = Policy(sequence=True, gap_timeout=4.0), Policy(sequence=True, gap_timeout=4.0, on_gap="skip")
DELAYED = f"{STAMP}0000D{NOW + 5_000_000}[1]".encode()
"""The head's own time is LATER."""

HELD_BACK = HeldBack(NOW - 2_000_000, int(LATER), b'{"type":"ConnectionError","message":"refused"}')

PROBE = "sequencer resume shop --outage"
REASONS: list[tuple[str, dict[str, Any], Policy, float | None, list[str]]] = [
    ("nothing", {"order_size": 0, "body_size": 0, "visible_us": None, "head": ""}, Policy(), None, ["no messages"]),
    ("due", {}, Policy(), 0.0, ["is due for 2.0 s and waits for a free consumer"]),
    ("due", {"lease": LEASE}, Policy(), 0.0, ["the lease of host-7 ran out 2.0 s ago"]),
    ("leased", {"lease": LEASE, "visible_us": LATER}, Policy(), 5.0, ["by host-7 for 2.0 s", AT, "when m1 is handled"]),
    (
        "leased",
        {"lease": b"1700000020000000" + b"1host-7", "visible_us": LATER},
        Policy(),
        5.0,
        ["for 80.0 s", "that is long", "if its handler hangs, end that consumer", "--handler-timeout"],
    ),
    (
        "leased",
        {"lease": b"1700000020000000" + b"1shop.example:4711:00c0de", "visible_us": LATER},
        Policy(),
        5.0,
        ["end that process (on shop.example: kill -KILL 4711)"],
    ),
    (
        "leased",
        {"lease": LEASE, "visible_us": LATER, "is_paused": True},
        Policy(),
        5.0,
        ["leased by host-7", "to be paused then"],
    ),
    (
        "backoff",
        {"failure": FAILURE, "visible_us": LATER},
        Policy(),
        5.0,
        [AT, "3 failed attempts of m1", "ValueError: no"],
    ),
    (
        "backoff",
        {"failure": b'{"id":"m1","outages":4,"type":"ConnectionError"}', "visible_us": LATER},
        Policy(),
        5.0,
        [AT, "4 outages, of which no attempt was counted, of m1"],
    ),
    (
        "backoff",
        {"failure": b'{"id":"m1","outages":1,"attempt":3}', "head_record": f"{STAMP}00020[1]".encode()}
        | {"visible_us": LATER},
        Policy(),
        5.0,
        ["1 outage, of which no attempt was counted, of m1"],
    ),
    (
        "backoff",
        {"failure": b'{"id":"m1","outages":11,"attempt":3}', "head_record": f"{STAMP}00030[1]".encode()}
        | {"visible_us": LATER},
        Policy(),
        5.0,
        ["11 outages, the last of them counted as attempt 3, of m1"],
    ),
    ("outage", {"outage": HELD_BACK}, Policy(), 5.0, ["ConnectionError: refused; next probe at", AT, PROBE]),
    ("outage", {"outage": HELD_BACK, "failure": FAILURE, "visible_us": LATER}, Policy(), 5.0, ["next probe at"]),
    ("leased", {"outage": HELD_BACK, "lease": LEASE, "visible_us": LATER}, Policy(), 5.0, ["by host-7"]),
    ("queue paused", {"outage": HELD_BACK, "is_queue_paused": True}, Policy(), None, ["whole queue is paused"]),
    ("delayed", {"head_record": DELAYED, "visible_us": LATER}, Policy(), 5.0, [AT]),
    ("window", {"visible_us": LATER}, Policy(reorder_window=6.0), 5.0, [AT]),
    ("gap", {"visible_us": LATER}, GAP, 3.0, ["waits for numbers 1 to 6", "before 7 (m1)", "it is parked then"]),
    ("gap", {"visible_us": LATER, "mark": "#5"}, SKIP, 3.0, ["waits for number 6,", "goes on without"]),
    ("gap", {"visible_us": INF, "mark": "#5"}, Policy(sequence=True, gap_timeout=0.5), None, ["number 6", "is over"]),
    (
        "parked",
        {"visible_us": INF, "failure": FAILURE},
        Policy(),
        None,
        ["parked on m1 after 3 failed attempts"],
    ),
    ("paused", {"visible_us": PAUSED, "is_paused": True}, Policy(), None, ["group user 1:2 is paused"]),
    ("paused", {"is_paused": True}, Policy(), None, ["group user 1:2 is paused"]),
    ("queue paused", {"is_queue_paused": True}, Policy(), None, ["whole queue is paused"]),
    ("broken", {"order_size": -1}, Policy(), None, ["its order key holds another type"]),
    ("broken", {"body_size": -1}, Policy(), None, ["its body key holds another type"]),
    ("broken", {"body_size": 1}, Policy(), None, ["its order holds 2 messages and its body 1"]),
    ("broken", {"visible_us": None}, Policy(), None, ["2 messages but is not in the schedule"]),
    ("broken", {"order_size": 0, "body_size": 0, "head": ""}, Policy(), None, ["in the schedule without a message"]),
    ("broken", {"head_record": b""}, Policy(), None, ["its head m1 has no record"]),
    ("broken", {"visible_us": INF, "lease": LEASE, "failure": FAILURE}, Policy(), None, ["leased and parked at once"]),
    ("broken", {"visible_us": INF}, Policy(), None, ["parked without a failure"]),
    ("broken", {"visible_us": INF, "mark": "#6"}, GAP, None, ["parked without a failure or a missing number"]),
    ("broken", {"visible_us": PAUSED}, Policy(), None, ["not among the paused groups"]),
    (
        "question",
        {"visible_us": INF, "failure": ASKED},
        Policy(),
        None,
        ["is parked on m1: step charge began, and its end is not known", "if it did not: sequencer resume shop"],
    ),
]


@pytest.mark.parametrize(
    ("reason", "changes", "policy", "moves_in_s", "words"), REASONS, ids=[f"{n}-{r[0]}" for n, r in enumerate(REASONS)]
)
def test_each_reason_has_its_sentence(
    reason: str, changes: dict[str, Any], policy: Policy, moves_in_s: float | None, words: list[str]
) -> None:
    said = explanation("user:1%3A2", SOUND._replace(**changes), policy, probe=PROBE)
    assert said.reason == reason, said.text
    assert said.group == ("user", "1:2")
    assert said.text.startswith("group user 1:2 ")
    for word in words:
        assert word in said.text
    assert "\n" not in said.text
    assert said.moves_in_s == (None if moves_in_s is None else pytest.approx(moves_in_s))
    assert said.backlog == max(0, SOUND._replace(**changes).order_size)
    if reason == "broken":
        assert "sequencer doctor --repair" in said.text


def test_every_reason_is_tried_here() -> None:
    from typing import get_args, get_type_hints

    from sequencer.values.views import Explanation

    told = {reason for reason, *_ in REASONS} | {"no_consumers"}  # of a shard as a whole: see below
    assert told == set(get_args(get_type_hints(Explanation)["reason"]))


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({"visible_us": INF, "failure": FAILURE}, "to resume it: {resume}; to go on without that message: {skip}"),
        ({"failure": FAILURE, "visible_us": LATER}, "to try at once: {resume}"),
        ({"visible_us": PAUSED, "is_paused": True, "failure": FAILURE}, "to unpause it: {unpause}"),
        ({"is_queue_paused": True}, "to unpause it: sequencer unpause orders --namespace shop"),
        ({}, "waits for a free consumer; if that lasts, see: sequencer info orders --namespace shop"),
    ],
)
def test_what_makes_a_group_move_is_named_as_commands(changes: dict[str, Any], end: str) -> None:
    found = explanation("user:1%3A2", SOUND._replace(**changes), Policy())
    said = with_commands(found, QueueOptions(queue="orders", namespace="shop")).text
    commands = {name: f"sequencer {name} orders user 1:2 --namespace shop" for name in ("resume", "skip", "unpause")}
    assert said.startswith(found.text)
    assert said.endswith(end.format(**commands))


@pytest.mark.parametrize("kind", ["outages", "missing"])
def test_what_counted_no_attempt_has_none_in_the_log(kind: str) -> None:
    """Else `explain` would list it as one of the failed attempts."""
    record = json.loads(FAILURE) | {"log": [[1, 5.0, "ValueError: no"]], "attempt": 2}
    tried = [log_of(json.dumps(record | more).encode()) for more in ({}, {kind: 1})]
    assert [[one.attempt for one in log] for log in tried] == [[1, 2], [1, 0]]


def test_a_group_that_is_due_says_that_nobody_consumes() -> None:
    due, options = explanation("user:1", SOUND, Policy()), QueueOptions(queue="orders", namespace="shop")
    assert with_no_consumers(due, None, 2.0, options) is due
    one = NoConsumers(1, NOW / 1e6 - 7, 7.0, "", None, connections=None)
    said = with_no_consumers(due, one, 7.04, options)
    assert (said.reason, said.moves_in_s, said.head_id) == ("no_consumers", None, due.head_id)
    assert said.text == (
        "group user 1 is due for 7.0 s, and nobody consumes: 1 group is due, since 2023-11-14 22:14:53 UTC (7 s), and "
        "no consumer has a group in progress; who is connected can't be seen (CLIENT LIST is not permitted); to start "
        "consumers: sequencer consume orders --app MODULE:NAME --namespace shop"
    )
    some = no_consumers_text(
        NoConsumers(1200, NOW / 1e6, 7.0, "host-7", NOW / 1e6, connections=2), "orders", "sequencer"
    )
    for words in ("1,200 groups are due, the first since", "the lease of host-7 ran out at 2023", "nothing: 2 (see"):
        assert words in some


@pytest.mark.parametrize(
    ("mark", "score", "missing"),
    [
        ("", "1", None),
        ("", "2", (1, 1)),
        ("#4", "7", (5, 6)),
        ("#4", "5", None),
        ("#9 3-4", "3", None),
        ("#4", "4", None),
    ],
)
def test_missing_numbers(mark: str, score: str, missing: tuple[int, int] | None) -> None:
    facts = SOUND._replace(mark=mark, head_score=score)
    assert missing_number(facts, GAP) == missing
    assert missing_number(facts, Policy()) is None
    assert missing_number(facts._replace(head=""), GAP) is None


@given(
    visible=st.sampled_from([None, 0.0, NOW - 1.0, LATER, PAUSED, INF]),
    lease=st.sampled_from([b"", LEASE]),
    failure=st.sampled_from([b"", FAILURE, b"\xff not JSON", b'{"type": "Broken", "message": "x"}']),
    paused=st.tuples(st.booleans(), st.booleans()),
    sizes=st.sampled_from([(0, 0), (2, 2), (2, 1), (0, 3), (-1, 2), (2, -1)]),
    record=st.sampled_from([b"", SOUND.head_record, DELAYED, b"rubbish"]),
    mark=st.sampled_from(["", "#", "#5", "#6 2-3"]),
    policy=st.sampled_from([Policy(), Policy(reorder_window=6.0), GAP, SKIP]),
)
def test_any_facts_get_a_sentence(
    visible: float | None,
    lease: bytes,
    failure: bytes,
    paused: tuple[bool, bool],
    sizes: tuple[int, int],
    record: bytes,
    mark: str,
    policy: Policy,
) -> None:
    facts = SOUND._replace(
        visible_us=visible,
        lease=lease,
        failure=failure,
        is_paused=paused[0],
        is_queue_paused=paused[1],
        order_size=sizes[0],
        body_size=sizes[1],
        head=MEMBER if sizes[0] > 0 else "",
        head_record=record if sizes[0] > 0 else b"",
        mark=mark if policy.sequence else "",
    )
    said = explanation("g", facts, policy)
    assert said.text.startswith("group g ")
    assert "\n" not in said.text
    assert said.moves_in_s is None or 0 <= said.moves_in_s < 1e6
    if sizes[0] != sizes[1]:
        assert said.reason == "broken"
