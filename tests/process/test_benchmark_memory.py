"""Scenario `memory` as a person runs it, tiny; and what makes a run not valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.kit.rounds import wrong_in
from benchmarks.scenarios.memory import report as memory_report
from benchmarks.scenarios.memory import trials as memory
from benchmarks.scenarios.memory.trials import DeadLetterContent, Shape
from sequencer import EmbeddedServer, Message
from sequencer.net.link import Link

from ..support.smoke import smoke

pytestmark = pytest.mark.nightly


def test_smoke(server: EmbeddedServer, link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = smoke(server, link, tmp_path, monkeypatch, "memory")
    by_shape = {(entry["settings"]["groups"], entry["settings"]["ids"]): entry for entry in result["summary"]}
    assert set(by_shape) == {(groups, ids) for groups in (1, 20, 400) for ids in memory.IDS}
    for (groups, ids), entry in by_shape.items():
        figures = {name: found["median"] for name, found in entry["figures"].items()}
        pending, handled = entry["settings"]["pending"], entry["settings"]["handled"]
        assert (pending["order"]["keys"], pending["order"]["entries"]) == (groups, 400)
        assert (pending["body"]["keys"], pending["body"]["entries"]) == (groups, 400)
        assert pending["schedule"]["entries"] == handled["marks"]["entries"] == groups
        assert handled["seen"]["entries"] == 400
        assert figures["pending body"] > 200
        assert figures["beyond body and id"] == pytest.approx(figures["pending all"] - 200 - figures["id"])
        assert ids != "16" or figures["id"] == 16
        assert min(figures[name] for name in ("lease", "handled seen", "handled marks")) > 16
    alone, together = (by_shape[groups, "16"]["figures"]["pending all"]["median"] for groups in (400, 20))
    assert alone > together, "a group of one message costs its keys"


def test_what_is_listed_and_what_is_not() -> None:
    shape = Shape(2, 10, "16")
    kinds = {"order": DeadLetterContent(2, 10, 1000), "body": DeadLetterContent(2, 10, 3000)}
    found = memory.per_message(shape, 2160, kinds, 4500)
    assert found["pending order"] == 100
    assert found["pending other"] == 50
    assert found["beyond body and id"] == 234
    assert found["beyond, a group"] == 1170
    assert memory.after_all(
        shape, {"seen": DeadLetterContent(1, 10, 720), "stats": DeadLetterContent(1, 2, 50)}, 900
    ) == {
        "handled seen": 72,
        "handled all": 90,
        "ids, MB": 43.2,
    }


def test_a_key_that_is_left_over_is_seen() -> None:
    assert memory.leftovers({"seen": DeadLetterContent(1, 1, 1), "stats": DeadLetterContent(1, 1, 1)}) == ""
    assert (
        memory.leftovers({"seen": DeadLetterContent(1, 1, 1), "body": DeadLetterContent(1, 1, 1)})
        == "keys are left when all was handled: body"
    )


@pytest.mark.parametrize(
    ("fault", "says"),
    [("", ""), ("lost", "1 losses"), ("twice", "1 duplicates"), ("swapped", "1 order violations")],
)
def test_a_history_with_a_fault_is_not_valid(fault: str, says: str) -> None:
    shape = Shape(2, 6, "made")
    done = [
        Message(f"id{at}", item["group"], 1.0, item["body"], {}, 1, 7, 1.0, "bench", 7)
        for at, item in enumerate(memory.items(shape))
    ]
    if fault == "lost":
        done.pop()
    elif fault == "twice":
        done.append(done[-1])
    elif fault == "swapped":
        done[0], done[2] = done[2], done[0]
    assert says in wrong_in(memory.planned(shape), memory.history(done))
    assert bool(wrong_in(memory.planned(shape), memory.history(done))) is bool(fault)


def test_kinds_of_keys() -> None:
    names = {"order:a:b": "order", "seen:old": "seen", "clock": "clock"}
    assert {name: memory.kind_of(f"{{n:q:0}}:{name}", "{n:q:0}:") for name in names} == names
    assert memory.kind_of("n:queues", "{n:q:0}:") == "queues"
    assert [shape.groups for shape in memory.USUAL.shapes[:4]] == [1, 100, 5000, 20_000]
    assert memory_report.SHOWN[:2] == ("order", "body")
