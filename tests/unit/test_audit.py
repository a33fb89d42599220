"""The audit's checker: legal histories are clean, each kind of broken one is found and named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sequencer.errors import DataError
from sequencer.queue.audit import KEPT_LEASES, KEPT_STAMPS, KEPT_TOPS, AuditRecord, Prover, prove_shards
from sequencer.store.keys import shard_keys
from sequencer.values.views import AuditReport
from tests.support.audit_records import BASE, STEPS, Steps, _random_steps, run, simulate

from ..support.listed_net import ListedNet
from ..support.listed_net import run as finish


def prove(records: Iterable[AuditRecord], *, is_trimmed: bool = False) -> AuditReport:
    """What these records show, those of a group in the order of their stream."""
    prover = Prover(is_trimmed)
    for record in records:
        prover.add(record)
    return prover.report()


# -- legal histories --------------------------------------------------------------------------------------------------


@given(STEPS)
def test_a_legal_history_is_clean_and_counted(steps: Steps) -> None:
    simulator = simulate(steps)
    report = prove(iter(simulator.records))
    assert report.is_clean, report.case
    assert report.case is None
    stamps = {stamp for stamp, _ in simulator.runs}
    assert (report.messages, report.duplicates) == (len(stamps), len(simulator.runs) - len(stamps))
    assert report.refused == sum(simulator.runs.values())
    assert report.untimed == 0


@given(STEPS, st.integers(0, 20))
@example(_random_steps(278), 8)
@example(_random_steps(184449), 13)
def test_a_legal_history_stays_clean_when_its_beginning_was_trimmed(steps: Steps, count: int) -> None:
    report = prove(simulate(steps).records[count:], is_trimmed=True)
    assert report.is_clean, report.case


# -- broken ones ------------------------------------------------------------------------------------------------------


IN_ORDER = [run("a", 1, 1, 100, 110, 120), run("b", 2, 2, 100, 120, 130), run("c", 3, 3, 200, 210, 220)]


def test_a_history_in_order_is_clean() -> None:
    report = prove(IN_ORDER)
    assert (report.messages, report.groups, report.duplicates, report.refused) == (3, 1, 0, 0)
    assert report.first_at == report.last_at == BASE / 1e6
    assert report.is_clean


CONTROLS: dict[str, tuple[list[AuditRecord], tuple[int, int, int], str]] = {
    "two messages of one lease swapped": (
        [run("b", 2, 2, 100, 110, 120), run("a", 1, 1, 100, 120, 130)],
        (1, 0, 0),
        "inversion in group g: a",
    ),
    "a message left behind by two leases": (
        [run("b", 2, 2, 100, 110, 120), run("x", 0, 150, 200, 210, 220), run("a", 1, 1, 300, 310, 320)],
        (1, 0, 0),
        "inversion in group g: a",
    ),
    "equal scores, against the stamps": (
        [run("b", 1, 2, 100, 110, 120), run("a", 1, 1, 200, 210, 220)],
        (1, 0, 0),
        "inversion in group g: a",
    ),
    "two consumers at once": (
        [run("a", 1, 1, 100, 110, 220), run("b", 2, 2, 200, 210, 230)],
        (0, 1, 0),
        "overlap in group g: b under token 1700000000000200 began",
    ),
    "a paused consumer that goes on, recorded at the end": (
        [run("b", 2, 2, 200, 210, 230), run("a", 1, 1, 100, 110, 500, refused=True)],
        (0, 1, 0),
        "overlap in group g: b",
    ),
    "a paused consumer that goes on, recorded at first": (
        [run("a", 1, 1, 100, 110, 220, refused=True), run("b", 2, 2, 200, 210, 230)],
        (0, 1, 0),
        "overlap in group g: b",
    ),
    "a run begun after its lease was lost": (
        [run("a", 1, 1, 200, 210, 230), run("b", 2, 2, 100, 240, 250, refused=True)],
        (0, 1, 0),
        "overlap in group g: a",
    ),
    "a paused consumer that ends between two runs of the next lease": (
        [run("a", 1, 1, 200, 210, 220), run("b", 2, 2, 200, 320, 330), run("a", 1, 1, 100, 110, 300, refused=True)],
        (0, 1, 0),
        "overlap in group g: b",
    ),
    "an acknowledgement under a token that was passed": (
        [run("a", 1, 1, 200, 210, 230), run("b", 2, 2, 100, 240, 250)],
        (0, 1, 1),
        "overlap in group g: a",
    ),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_each_kind_of_broken_history_is_found_and_named(name: str) -> None:
    records, counts, said = CONTROLS[name]
    report = prove(records)
    assert (report.inversions, report.overlaps, report.tokens_back) == counts
    assert not report.is_clean
    assert said in (report.case or "")


def test_the_first_violation_is_named_whatever_shard_it_is_in() -> None:
    late = [record._replace(at_ms=record.at_ms + 5000) for record in CONTROLS["two messages of one lease swapped"][0]]
    early = [record._replace(group="a b:c") for record in CONTROLS["two consumers at once"][0]]
    report = prove([*late, *early])
    assert (report.inversions, report.overlaps) == (1, 1)
    assert (report.case or "").startswith("overlap in group 'a b' c: ")
    assert report.last_at == pytest.approx((report.first_at or 0) + 5)


LEGAL: dict[str, list[AuditRecord]] = {
    "it arrived after the lease was taken": [run("b", 2, 2, 100, 110, 120), run("a", 1, 150, 200, 210, 220)],
    "it was redriven": [run("b", 2, 2, 100, 110, 120), run("a", 1, 1, 200, 210, 220, redriven=True)],
    "it is in another group": [run("b", 2, 2, 100, 110, 120), run("a", 1, 1, 200, 210, 220, group="h")],
    "the one before it was refused": [run("b", 2, 2, 100, 110, 120, refused=True), run("a", 1, 1, 200, 210, 220)],
    "it was handled before": [*IN_ORDER, run("a", 1, 1, 300, 310, 320)],
    "it began when the one before it ended": [run("a", 1, 1, 100, 110, 210), run("b", 2, 2, 200, 210, 220)],
    "the ends differ by what clocks may": [
        run("a", 1, 1, 100, 110, 10_000_100),
        run("b", 2, 2, 10_000_000, 10_000_010, 10_000_020, at=10_000_200),
    ],
}


@pytest.mark.parametrize("name", LEGAL)
def test_what_looks_like_a_violation_is_none_if(name: str) -> None:
    assert prove(LEGAL[name]).case is None


def test_without_that_reason_it_is_one() -> None:
    refused = LEGAL["the one before it was refused"]
    controls = [[LEGAL["it was redriven"][0], LEGAL["it was redriven"][1]._replace(redriven=False)]]
    controls += [[record._replace(group="g") for record in LEGAL["it is in another group"]]]
    controls += [[record._replace(refused=False) for record in refused]]
    first, second = LEGAL["the ends differ by what clocks may"]
    controls += [[first._replace(ended=first.ended + 20_000, at_ms=first.at_ms + 20), second]]
    assert [prove(records).is_clean for records in controls] == [False] * 4


def test_a_repeated_acknowledgement_counts_once() -> None:
    again = [*IN_ORDER[:2], *IN_ORDER[:2], IN_ORDER[2], IN_ORDER[2]._replace(refused=True)]
    assert prove(again) == prove(IN_ORDER)


def test_all_that_a_lost_lease_held_is_a_duplicate_when_it_is_handled_again() -> None:
    lost = [run(f"m{n}", n, n, 5000, 5001 + n, 5002 + n, refused=True) for n in range(1000)]
    again = [run(f"m{n}", n, n, 9000, 9001 + n, 9002 + n) for n in range(1000)]
    report = prove(lost + again)
    assert (report.messages, report.duplicates, report.refused, report.is_clean) == (1000, 1000, 1000, True)


def test_times_ahead_of_the_server_prove_no_overlap() -> None:
    records = CONTROLS["two consumers at once"][0]
    back = [record._replace(at_ms=record.at_ms - 10_000) for record in records]
    assert (prove(back).untimed, prove(back).overlaps) == (2, 0)
    assert (prove(records).untimed, prove(records).overlaps) == (0, 1)


# -- against the definitions, pair by pair ----------------------------------------------------------------------------

RUNS = st.lists(
    st.builds(
        lambda group, score, stamp, token, began, length, flags: run(
            f"m{stamp}", score, stamp, token, began, began + length, group=group, redriven=flags[0], refused=flags[1]
        ),
        st.sampled_from("gh"),
        st.integers(0, 4),
        st.integers(0, 12),
        st.integers(1, 5).map(lambda n: n * 3),
        st.integers(0, 30),
        st.integers(0, 6),
        st.tuples(st.integers(0, 3).map(lambda n: n == 0), st.integers(0, 3).map(lambda n: n == 0)),
    ),
    max_size=12,
    unique_by=lambda record: (record.group, record.stamp, record.token),
)


def is_inverted(records: list[AuditRecord], j: int) -> bool:
    one = records[j]
    before = [record for record in records[:j] if record.group == one.group]
    if one.refused or one.redriven or any(record.stamp == one.stamp for record in before):
        return False
    place = (one.score, one.stamp)
    return any(not r.refused and (r.score, r.stamp) > place and r.token > one.stamp for r in before)


def is_exclusive(records: list[AuditRecord]) -> bool:
    pairs = [(a, b) for a in records for b in records if a.group == b.group and a.token < b.token]
    return all(a.ended <= b.began for a, b in pairs)


@given(RUNS, st.booleans())
def test_any_history_is_judged_as_the_definitions_say(records: list[AuditRecord], is_by_token: bool) -> None:
    if is_by_token:
        records.sort(key=lambda record: record.token)
    records = [record._replace(at_ms=BASE // 1000 + 10) for record in records]
    tokens: dict[str, int] = {}
    is_back = False
    for record in records:
        if not record.refused:
            is_back = is_back or record.token < tokens.get(record.group, 0)
            tokens[record.group] = max(tokens.get(record.group, 0), record.token)
    report = prove(records)
    assert (report.overlaps + report.tokens_back > 0) == (is_back or not is_exclusive(records))
    if not is_back:
        assert report.inversions == sum(is_inverted(records, j) for j in range(len(records)))
    assert report.is_clean == (report.case is None)


# -- cost -------------------------------------------------------------------------------------------------------------


def in_order(count: int) -> Iterator[AuditRecord]:
    """One group, a lease for each message."""
    return (run(f"m{n}", n, 10 * n, 10 * n + 1, 10 * n + 2, 10 * n + 3) for n in range(count))


def ever_lower(count: int) -> Iterator[AuditRecord]:
    """Each message comes late, below all before it."""
    return (record._replace(score=-float(record.score)) for record in in_order(count))


def ever_again(count: int) -> Iterator[AuditRecord]:
    """Each message is run twice, its first run recorded late."""
    for record in in_order(count):
        yield record
        yield record._replace(token=record.token - 2, refused=True, began=record.token - 2, ended=record.token - 1)


@pytest.mark.parametrize("make", [in_order, ever_lower, ever_again])
def test_memory_does_not_grow_with_the_records_of_a_group(make: Callable[[int], Iterator[AuditRecord]]) -> None:
    prover = Prover()
    for record in make(5000):
        prover.add(record)
    (group,) = prover._groups.values()
    assert len(group.leases) <= KEPT_LEASES
    assert len(group.tops) <= 2 * KEPT_TOPS
    assert len(group.stamps) <= KEPT_STAMPS
    assert prover.report().is_clean


# -- as an operation -----------------------------------------------------------------------------------------------


SHARDS = [shard_keys("n", "q", shard) for shard in range(2)]
FACTS = [b"length", 3, b"last-generated-id", b"7-0", b"entries-added", 5]


def entry(name: str, id: str, score: int) -> list[Any]:
    """A run under a token of its own, which began when the one before had ended."""
    fields = {"group": "g", "id": id, "score": score, "stamp": score, "token": 10 * score}
    fields |= {"began": 10 * score, "ended": 10 * score + 5, "redriven": 0, "refused": 0}
    return [name.encode(), [str(word).encode() for pair in fields.items() for word in pair]]


def test_it_reads_page_by_page_what_is_there_when_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sequencer.queue.audit.PAGE", 2)
    pages = [[entry("5-0", "a", 1), entry("6-0", "b", 2)]], [[entry("7-0", "c", 3)]]
    net = ListedNet([0], [1], [FACTS], *pages)
    report = finish(prove_shards(net, SHARDS))
    assert (report.messages, report.groups, report.is_trimmed, report.case) == (3, 1, True, None)
    assert net.asked[0] == ("EXISTS", SHARDS[0].audit)
    assert [words[2:] for words in net.asked if words[0] == "XRANGE"] == [
        (b"-", b"7-0", "COUNT", 2),
        (b"(6-0", b"7-0", "COUNT", 2),
    ]


@pytest.mark.parametrize("answer", [[[[b"7-0", None]]], [[[b"7-0", [b"odd"]]]], [[[b"\xff", []]]], [[[b"7-0", []]]]])
def test_an_entry_that_nobody_of_ours_wrote_is_said_so(answer: list[Any]) -> None:
    with pytest.raises(DataError):
        finish(prove_shards(ListedNet([1], [FACTS], answer), SHARDS[1:]))


def test_a_stream_that_can_not_be_described_is_said_so() -> None:
    with pytest.raises(DataError):
        finish(prove_shards(ListedNet([1], [[b"length", 3]]), SHARDS[1:]))
