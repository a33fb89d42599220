"""What a client asks before it uses a queue, and when a connection is new: over a net that answers from a list."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from sequencer.doctor.rights import missing_rights
from sequencer.errors import ConfigurationError, DataError, QueueFull, ServerNotUsable, ServerUnavailable
from sequencer.queue.policy_store import change_policy, wake_put_off_groups
from sequencer.queue.session import Session, check_first, queue_names
from sequencer.settings.options import QueueOptions
from sequencer.settings.policy import Policy
from sequencer.store.keys import lane_keys

from ..support.listed_net import ListedNet, run

OPENED = [b"OK", b"OK", b"OK", [], b"OK"]
KEYS = [lane_keys("n", "q", lane) for lane in range(2)]
DEFAULT = Policy().stored()


def stored(**changed: str) -> list[bytes]:
    """The answer to HGETALL of a policy."""
    return [word.encode() for pair in {**DEFAULT, **changed}.items() for word in pair]


def session(net: ListedNet, **options: Any) -> Session:
    return Session(QueueOptions(queue="q", namespace="n", **options), net)


def words(net: ListedNet) -> list[str]:
    return [str(one[0]) for one in net.asked]


class Refused(ServerNotUsable):
    pass


def denied(right: str) -> Refused:
    return Refused(f"User x has no permissions to run the '{right}' command")


# -- first use --------------------------------------------------------------------------------------------------


def test_the_first_use_asks_for_rights_then_registers_then_sets_the_policy_and_the_next_asks_nothing() -> None:
    net = ListedNet([None], OPENED, {}, [None], [1], [b"2"], [b"OK"], [[], []], [b"OK", b"QUEUED", b"QUEUED", [9, 9]])
    seq = session(net, lanes=2)
    assert run(seq.lanes(role="append")) == KEYS
    asked = words(net)
    assert asked[:3] == ["HGET", "alone", "WATCH"]
    assert asked[asked.index("shared") + 1 :] == [
        *("HGET", "HSETNX", "HGET", "alone", "WATCH", "HGETALL", "HGETALL", "MULTI", "HSET", "HSET", "EXEC", "shared")
    ]
    assert run(seq.keys_of("g")) in KEYS
    assert (run(seq.lanes(role="append")), run(seq.policy()), net.asked[len(asked) :]) == (KEYS, Policy(), [])
    assert (seq.known_lanes(), seq.known_sequence(), run(seq.is_sequence())) == (KEYS, False, False)


def test_a_mere_look_writes_nothing_and_is_remembered_only_of_a_queue_that_is_there() -> None:
    net = ListedNet([None], [[]], [b"2"], [[], []], [b"2"], [stored(sequence="1"), stored()])
    seq = session(net)
    assert len(run(seq.lanes(register=False))) == 1
    assert len(run(seq.lanes(register=False))) == 2, "registered by now; its policy is still on its way"
    assert run(seq.policy(register=False)).sequence is True
    assert words(net) == ["HGET", "HGETALL", *["HGET", "HGETALL", "HGETALL"] * 2]
    assert len(run(seq.lanes(register=False))) == 2
    assert net.answers == []


def test_a_look_that_began_first_and_ends_last_does_not_undo_a_registration() -> None:
    net = ListedNet(OPENED, {}, [b"2"], [b"OK"], [stored(), stored()], [b"OK"])
    seq = session(net)

    def registered_meanwhile(_: Any) -> list[Any]:
        net.answers.insert(0, [b"2"])
        run(seq.lanes(role="append"))
        net.answers[:] = [[[]]]
        return [b"1"]

    net.answers.insert(0, registered_meanwhile)
    assert run(seq.lanes(register=False)) == KEYS
    assert seq.known_lanes() == KEYS


@pytest.mark.parametrize(
    ("said", "error"), [(b"x", DataError), (b"0", DataError), (b"257000", DataError), (b"3", ConfigurationError)]
)
def test_a_number_of_lanes_that_can_not_be_is_said(said: bytes, error: type[Exception]) -> None:
    with pytest.raises(error, match="lanes"):
        run(session(ListedNet([said]), lanes=2).lanes(register=False))


def test_a_policy_that_others_wrote_is_foreign_data() -> None:
    with pytest.raises(DataError, match="no client of ours wrote"):
        run(session(ListedNet([b"1"], [stored(dedup_us="soon")])).lanes(register=False))
    with pytest.raises(DataError, match="no client of ours wrote"):
        run(session(ListedNet([b"1"], [stored()], [[b"dedup_us", b"\xff"]])).fresh_policy())


def test_the_policy_of_now_is_what_a_lost_server_gets_again() -> None:
    net = ListedNet([b"1"], OPENED, {}, [b"1"], [b"OK"], [stored()], [b"OK"], [stored(on_late="drop")])
    seq = session(net)
    run(seq.lanes())
    assert run(seq.fresh_policy()).on_late == "drop"
    net.asked.clear()
    net.answers[:] = [[None, [], 0], [1], [b"1"], {"EXEC": []}]
    run(restored(net, seq))
    assert ("HSETNX", KEYS[0].policy, "on_late", "drop") in net.asked


# -- rights -----------------------------------------------------------------------------------------------------


def test_what_is_missing_is_told_by_role_and_the_connection_is_fit_for_others() -> None:
    net = ListedNet(OPENED, {"ZADD": denied("zadd"), "BLPOP": denied("blpop")})
    missing = run(missing_rights(net, ("append", "consume"), "n", "q", KEYS))
    assert missing == {"append": ["+zadd"], "consume": ["+blpop", "+zadd"]}
    assert ("give up",) not in net.asked


def test_a_key_that_may_not_be_touched_is_told_as_its_pattern() -> None:
    net = ListedNet(OPENED, {"EVAL": Refused("No permissions to access a key")})
    assert run(missing_rights(net, ("append",), "n", "q", KEYS)) == {"append": ["~n:queues", "~{n:q:*"]}


@pytest.mark.parametrize("opened", [[b"OK", b"OK", denied("multi"), denied("exec"), denied("multi")]])
def test_without_multi_nothing_more_is_asked_since_it_would_be_done(opened: list[Any]) -> None:
    net = ListedNet(opened)
    assert run(missing_rights(net, ("append",), "n", "q", KEYS)) == {"append": ["+exec", "+multi"]}
    assert words(net)[-2:] == ["give up", "shared"]


def test_without_discard_the_connection_is_given_up() -> None:
    net = ListedNet(OPENED, {"DISCARD": denied("discard")})
    assert run(missing_rights(net, ("append",), "n", "q", KEYS)) == {"append": ["+discard"]}
    assert words(net)[-2:] == ["give up", "shared"]


def test_a_right_that_is_missing_is_asked_for_again_and_named() -> None:
    net = ListedNet([b"1"], OPENED, {"ZADD": denied("zadd")}, [b"1"], OPENED, {})
    seq = session(net)
    with pytest.raises(ServerNotUsable, match=r"to append to this queue, the user lacks \+zadd"):
        run(seq.allow("append"))
    run(seq.allow("append"))
    run(seq.allow("consume"))
    assert net.answers == []


# -- the policy -------------------------------------------------------------------------------------------------


def change(net: ListedNet, **asked: Any) -> Policy:
    return run(change_policy(net, "q", KEYS[:1], asked))


def test_a_policy_that_is_as_asked_is_only_looked_at() -> None:
    net = ListedNet([b"OK"], [stored(on_late="drop")], [b"OK"])
    assert change(net, on_late="drop").on_late == "drop"
    assert words(net) == ["alone", "WATCH", "HGETALL", "UNWATCH", "shared"]


def test_a_change_between_look_and_transaction_is_looked_at_again(caplog: pytest.LogCaptureFixture) -> None:
    refused = {"EXEC": None}
    net = ListedNet([b"OK"], [stored()], refused, [b"OK"], [stored(mark_us="5000000")], {"EXEC": [1]})
    with caplog.at_level(logging.WARNING, "sequencer"):
        found = change(net, on_late="drop")
    assert (found.on_late, found.watermark_window) == ("drop", 5)
    assert [one for one in net.asked if one[0] == "HSET"] == [("HSET", KEYS[0].policy, "on_late", "drop")] * 2
    record: Any = caplog.records[0]
    assert caplog.messages == ["q: policy changed: on_late from 'handle' to 'drop'"]
    assert (record.event, record.queue, record.before, record.now) == ("policy changed", "q", "handle", "drop")


def test_a_transaction_whose_answer_is_lost_is_looked_at_again_and_what_it_brings_with_it_is_done() -> None:
    net = ListedNet([b"OK"], [stored(window_us="9000000")], ServerUnavailable("lost"))
    net.answers += [[b"OK"], [stored()], [b"OK"], [[b"5", b"0"]], [[b"0", []]]]
    assert change(net, reorder_window=0).reorder_window == 0
    assert words(net)[-2:] == ["TIME", "ZSCAN"]


def test_a_connection_that_had_gone_stale_is_looked_at_twice_and_no_more() -> None:
    lost = ServerUnavailable("lost")
    assert change(ListedNet(lost, [b"OK"], [stored()], [b"OK"])) == Policy()
    with pytest.raises(ServerUnavailable, match="lost"):
        change(ListedNet(lost, lost))


def test_a_policy_that_others_change_all_the_time_is_given_up() -> None:
    with pytest.raises(ServerUnavailable, match="being changed by others all the time"):
        change(ListedNet(*[[b"OK"], [stored()], {"EXEC": None}] * 20), on_late="drop")


def test_an_error_inside_the_transaction_leaves_the_block_by_it() -> None:
    net = ListedNet([b"OK"], [stored()], {"HSET": QueueFull("full")})
    with pytest.raises(QueueFull):
        change(net, on_late="drop")
    assert words(net)[-1] != "shared"


def test_groups_that_were_put_off_are_woken_page_by_page_each_once() -> None:
    page = [b"a", b"9e6", b"b", b"1", b"c", b"inf"]
    net = ListedNet([[b"5", b"0"]], [[b"7", page]], [[b"0", [b"a", b"9e6"]]], [b"woken", b"leased"])
    run(wake_put_off_groups(net, KEYS[0]))
    assert [(script, args[1]) for script, *args in net.asked[-2:]] == [("wake", "a"), ("wake", "c")]


# -- a new connection -------------------------------------------------------------------------------------------


async def restored(net: ListedNet, seq: Session) -> None:
    async with net.alone("") as alone:
        net.asked.clear()
        await seq.restore_registration(alone)


def registered(net: ListedNet) -> Session:
    net.answers[:] = [[b"2"], OPENED, {}, [b"2"], [b"OK"], [stored(), stored()], [b"OK"]]
    seq = session(net)
    run(seq.lanes())
    assert net.answers == []
    return seq


def test_a_client_that_never_used_the_queue_asks_nothing_on_a_new_connection() -> None:
    net = ListedNet()
    run(restored(net, session(net)))
    assert words(net) == ["shared"]


def test_a_server_that_knows_the_queue_is_only_asked() -> None:
    net = ListedNet()
    seq = registered(net)
    net.answers[:] = [[b"2", stored(), 1, 1]]
    run(restored(net, seq))
    assert words(net) == ["HGET", "HGETALL", "EXISTS", "EXISTS", "shared"]


def test_a_server_that_lost_its_data_gets_lanes_and_policy_again(caplog: pytest.LogCaptureFixture) -> None:
    net = ListedNet()
    seq = registered(net)
    net.answers[:] = [[None, [], 0, 0], [1], [b"2"], {"EXEC": []}]
    with caplog.at_level(logging.WARNING, "sequencer"):
        run(restored(net, seq))
    writes = [one for one in net.asked if one[0] == "HSETNX"]
    assert writes[0] == ("HSETNX", "n:queues", "q", b"2")
    assert {one[1] for one in writes[1:]} == {keys.policy for keys in KEYS}
    assert {one[2]: one[3] for one in writes[1:]} == DEFAULT
    record: Any = caplog.records[0]
    assert "registered again, with 2 lanes" in record.getMessage()
    assert (record.event, record.queue, record.lanes) == ("queue restored", "q", 2)


def test_others_who_registered_it_with_other_lanes_are_left_alone() -> None:
    net = ListedNet()
    seq = registered(net)
    net.answers[:] = [[b"1", stored(), 1, 0]]
    with pytest.raises(DataError, match="had 2 lanes, and now n:queues says b'1'"):
        run(restored(net, seq))
    assert words(net) == ["HGET", "HGETALL", "EXISTS", "EXISTS"]


async def checked(*answers: Any) -> None:
    net = ListedNet(*answers)
    async with net.alone("") as alone:
        await check_first(alone, net.name)


def test_a_server_is_checked_and_one_without_info_is_not() -> None:
    run(checked([b"redis_version:7.0.0\r\nrole:master\r\n"]))
    run(checked(ServerNotUsable("it lacks a command (unknown command 'INFO')")))
    with pytest.raises(ServerNotUsable, match=r"is Redis 5\.0\.1; 6\.2 or later"):
        run(checked([b"redis_version:5.0.1\r\n"]))
    with pytest.raises(ServerNotUsable, match="NOPERM"):
        run(checked(ServerNotUsable("NOPERM")))


def test_the_queues_of_a_namespace_come_by_name() -> None:
    assert run(queue_names(ListedNet([[b"b", b"a"]]), "n")) == ["a", "b"]
    with pytest.raises(DataError):
        run(queue_names(ListedNet([[b"\xff"]]), "n"))
