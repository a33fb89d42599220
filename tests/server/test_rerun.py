"""What `history_bodies` keeps of messages that ended, and `rerun`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from sequencer import Message, Sequencer
from sequencer.errors import ConfigurationError, MessageNotFound, RerunRefused
from sequencer.net.link import Link
from sequencer.settings.policy import DAY_S
from sequencer.store.keys import ShardKeys
from sequencer.values.history import MessageInfo
from sequencer.values.message import StepCall
from tests.support.handling import Make, consumed, got

BODIES: dict[str, Any] = {"history_window": DAY_S, "history_bodies": True, "backoff": 0.01}


def known(seq: Sequencer, id: str, group: str = "g") -> MessageInfo:
    info = got(seq, group, id)
    assert [info] == [one for one in seq.find(id) if one.group == info.group]
    if info.finished_at is not None:
        assert info in list(seq.history(group))
    return info


def failing_once(message: Message) -> None:
    if message.attempt == 1:
        raise ValueError("the bank is closed")


def test_get_find_and_history_show_content_and_last_error_of_what_was_handled(make: Make) -> None:
    seq = make(**BODIES)
    seq.append({"euros": 5}, group="g", id="a", score=7, headers={"x": "y"})
    seq.append({"euros": 6}, group="g", id="b", score=8)
    consumed(seq, lambda message: failing_once(message) if message.id == "a" else None)
    info = known(seq, "a")
    assert info.message is not None
    assert info.state == "finished"
    assert (info.message.body, info.message.headers, info.message.score) == ({"euros": 5}, {"x": "y"}, 7.0)
    assert info.error is not None
    assert (info.error.type, info.error.message) == ("ValueError", "the bank is closed")
    other = known(seq, "b")
    assert other.message is not None
    assert other.message.body == {"euros": 6}
    assert other.error is None


def test_without_bodies_nothing_is_kept_and_a_rerun_is_refused(make: Make) -> None:
    for seq in (make(history_window=DAY_S), make(queue="other")):
        seq.append(1, group="g", id="a")
        consumed(seq)
        info = got(seq, "g", "a")
        assert info.message is None
        with pytest.raises(RerunRefused):
            seq.rerun("g", "a")
    with pytest.raises(ConfigurationError):
        make(queue="third", history_bodies=True).connect()


def park(message: Message) -> None:
    raise ValueError("no")


def ended_by(seq: Sequencer, how: str) -> None:
    seq.append(how, group="g", id="a", delay=60 if how in ("cancelled", "replaced") else None)
    if how == "cancelled":
        seq.cancel("g", "a")
    elif how == "replaced":
        seq.append("new", group="g", id="a", replace=True)
    elif how in ("purged", "swept"):
        consumed(seq, park)
        seq.skip("g", dead_letter=True)
        if how == "purged":
            seq.purge(id="a")
        else:
            seq.sweep()
    else:
        consumed(seq, park)
        if how == "skipped":
            seq.skip("g")
        elif how == "skipped with many":
            seq.skip_many(everything=True, discard=True)


@pytest.mark.parametrize(
    "how", ["cancelled", "replaced", "purged", "swept", "skipped", "skipped with many", "dropped", "late"]
)
def test_each_end_keeps_the_content(make: Make, how: str) -> None:
    if how == "late":
        seq = make(on_late="drop", **BODIES)
        seq.append(0, group="g", id="first", score=9)
        consumed(seq)
        seq.append(how, group="g", id="a", score=1)
    else:
        seq = make(on_failure="drop" if how == "dropped" else "park", max_attempts=1, dead_window=1e-6, **BODIES)
        ended_by(seq, how)
    (info,) = [one for one in seq.history("g") if one.id == "a"]
    assert info.state == {"late": "dropped", "skipped with many": "skipped"}.get(how, how)
    assert info.message is not None
    assert info.message.body == how
    assert (info.error is not None) == (how in ("purged", "swept", "skipped", "skipped with many", "dropped"))


def test_a_rerun_has_an_id_of_its_own_and_a_repeat_adds_nothing(make: Make) -> None:
    seq = make(dedup_window=0, **BODIES)
    seq.append({"n": 1}, group="g", id="e3", headers={"x": "y"})
    consumed(seq)
    first, again = seq.rerun("g", "e3"), seq.rerun("g", "e3")
    assert (first.id, first.duplicate, again.id, again.duplicate) == ("e3~2", False, "e3~2", True)
    (message,) = consumed(seq)
    assert (message.id, message.body, message.headers["x"], message.redriven) == ("e3~2", {"n": 1}, "y", True)
    assert seq.rerun("g", "e3").duplicate  # also where it was handled and its id forgotten since
    assert seq.rerun("g", "e3~2").id == "e3~3"
    assert [message.id for message in consumed(seq)] == ["e3~3"]
    linked = {info.id: (info.rerun_of, info.rerun_as) for info in seq.history("g")}
    assert linked == {"e3": ("", "e3~2"), "e3~2": ("e3", "e3~3"), "e3~3": ("e3~2", "")}
    assert known(seq, "e3~2").rerun_of == "e3"


def test_an_id_that_somebody_else_has_is_passed_over(make: Make) -> None:
    seq = make(**BODIES)
    for id in ("a", "a~2"):
        seq.append(id, group="g", id=id)
    consumed(seq)
    seq.append("other", group="g", id="a~3")
    assert seq.rerun("g", "a").id == "a~4"
    assert seq.rerun("g", "a~2").id == "a~2~2"
    assert [message.body for message in consumed(seq)] == ["a", "a~2", "other"]


def test_what_an_error_ended_behind_the_append_is_not_appended_twice(make: Make, link: Link, keys: ShardKeys) -> None:
    seq = make(**BODIES)
    seq.append(1, group="g", id="a")
    consumed(seq)
    assert seq.rerun("g", "a").id == "a~2"
    (bucket,) = link.command("ZRANGE", keys.histories, 0, -1)
    assert link.command("HDEL", keys.bodies(bucket.decode()), "\ng\na") == 1
    again = seq.rerun("g", "a")
    assert (again.id, again.duplicate) == ("a~2", True)
    assert known(seq, "a").rerun_as == "a~2"
    assert len(consumed(seq)) == 1


@pytest.mark.parametrize("rules", [{"on_late": "drop"}, {"on_late": "refuse"}, {"sequence": True}, {}])
def test_a_rerun_takes_its_own_place_and_is_never_given_up_as_late(make: Make, rules: dict[str, Any]) -> None:
    seq = make(**BODIES, **rules)
    scores: list[Any] = [1, 2, 3] if rules else [None] * 3
    for n, score in enumerate(scores):
        seq.append(n, group="g", id=f"m{n}", score=score)
    consumed(seq)
    seq.append(3, group="g", id="m3", score=4 if rules else None)
    seq.rerun("g", "m1")
    first, second = consumed(seq)
    assert (first.id, first.late, second.id) == ("m1~2", True, "m3")
    assert known(seq, "m1~2").state == "finished"


def test_steps_start_anew_or_stay_done(make: Make) -> None:
    seq, ran = make(**BODIES), list[str]()

    @seq.step(once=True)
    def charge(message: Message) -> dict[str, int]:
        ran.append("charge")
        return {"euros": 5}

    @seq.step
    def mail(message: Message, call: StepCall) -> str:
        ran.append("mail")
        return f"sent {call.results['charge']['euros']}"

    seq.append({}, group="g", id="a")
    seq.consume(until_empty=True)
    info = known(seq, "a")
    assert info.steps is not None
    assert [(one.state, one.result) for one in info.steps.steps] == [("done", {"euros": 5}), ("done", "sent 5")]
    assert info.steps == seq.steps("g", "a")
    assert seq.rerun("g", "a").id == "a~2"
    seq.consume(until_empty=True)
    assert ran == ["charge", "mail"] * 2
    assert seq.rerun("g", "a~2", keep_steps=True).id == "a~3"
    seq.consume(until_empty=True)
    assert ran == ["charge", "mail"] * 2
    kept = known(seq, "a~3")
    assert kept.steps is not None
    assert [one.result for one in kept.steps.steps] == [{"euros": 5}, "sent 5"]


def test_steps_are_not_kept_while_nobody_knows_how_one_ended(make: Make) -> None:
    seq, ran = make(max_attempts=1, **BODIES), list[str]()

    @seq.step(once=True)
    def charge(message: Message) -> None:
        ran.append("charge")
        if len(ran) == 1:
            raise ValueError("the line is dead")

    seq.append({}, group="g", id="a")
    seq.consume(until_empty=True)
    seq.skip("g", yes=True)
    with pytest.raises(RerunRefused):
        seq.rerun("g", "a", keep_steps=True)
    assert seq.rerun("g", "a").id == "a~2"
    seq.consume(until_empty=True)
    assert ran == ["charge"] * 2


def test_only_what_ended_runs_again(make: Make) -> None:
    seq = make(max_attempts=1, **BODIES)
    seq.append(1, group="waits", id="a")
    with pytest.raises(RerunRefused):
        seq.rerun("waits", "a")
    with pytest.raises(MessageNotFound):
        seq.rerun("waits", "b")
    consumed(seq, park)
    with pytest.raises(RerunRefused):
        seq.rerun("waits", "a")
    seq.skip("waits", dead_letter=True)
    with pytest.raises(RerunRefused):
        seq.rerun("waits", "a")


def test_what_is_turned_off_is_kept_no_more_and_no_older_content_is_shown(make: Make, link: Link) -> None:
    seq = make(dedup_window=0, **BODIES)
    seq.append("old", group="g", id="a")
    consumed(seq)
    make(history_bodies=False).connect()
    seq.append("new", group="g", id="a")
    consumed(seq)
    info = got(seq, "g", "a")
    assert info.message is None
    assert [one.message and one.message.body for one in seq.history("g")] == [None, "old"]
    with pytest.raises(RerunRefused):
        seq.rerun("g", "a")


def test_a_full_server_keeps_ends_without_contents_so_that_consumers_make_room(
    start_server: Callable[..., str],
) -> None:
    path = start_server()
    seq = Sequencer("q", f"unix://{path}", **BODIES)
    with seq, redis.Redis(unix_socket_path=path) as server:
        seq.append(1, group="g", id="before")
        consumed(seq)
        for n in range(200):
            seq.append("x" * 1000, group=n % 5, id=f"m{n}")
        server.config_set("maxmemory", "1")
        used = server.info("memory")["used_memory"]
        assert len(consumed(seq)) == 200
        assert server.info("memory")["used_memory"] < used - 100 * 1000
        assert known(seq, "before").message is not None
        info = got(seq, "0", "m0")
        assert (info.state, info.message) == ("finished", None)
        server.config_set("maxmemory", "0")
        with pytest.raises(RerunRefused):
            seq.rerun("0", "m0")
        seq.append(2, group="g", id="after")
        consumed(seq)
        assert seq.rerun("g", "after").id == "after~2"
        assert seq.rerun("g", "before").id == "before~2"
