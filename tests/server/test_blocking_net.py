"""A connection of one's own is whole or closed, whatever interrupts its use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sequencer.doctor.rights
import sequencer.queue.registry.generation_search
from sequencer import EmbeddedServer, Sequencer, StopConsuming
from sequencer.errors import ServerUnavailable
from sequencer.net.blocking import BlockingNet, finish
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.testing import wait_until

from ..support.refused import refused


@pytest.fixture
def net(server: EmbeddedServer) -> Iterator[BlockingNet]:
    def start() -> Endpoint:
        raise AssertionError("a server is given")

    net = BlockingNet(server.url, start)
    yield net
    net.close()


def client_id(net: BlockingNet) -> int:
    (number,) = finish(net.read([("CLIENT", "ID")]))
    return int(number)


def test_a_connection_alone_goes_back_unless_it_failed_or_was_given_up(net: BlockingNet) -> None:
    async def alone(*, gives_up: bool = False, error: BaseException | None = None) -> None:
        async with net.alone() as one:
            await one.read([("WATCH", "k")])
            if gives_up:
                one.give_up()
            if error:
                raise error

    first = client_id(net)
    finish(alone())
    assert client_id(net) == first
    finish(alone(gives_up=True))
    second = client_id(net)
    assert second != first
    for error in (KeyboardInterrupt(), ValueError("what others wrote")):
        before = client_id(net)
        with pytest.raises(type(error)):
            finish(alone(error=error))
        assert client_id(net) != before


def test_nothing_is_sent_alone_over_another_connection_than_the_one_that_was_lost(net: BlockingNet, link: Link) -> None:
    """Else an EXEC would run without its WATCH."""

    async def lost() -> Any:
        async with net.alone() as alone:
            (number,) = await alone.read([("CLIENT", "ID")])
            link.command("CLIENT", "KILL", "ID", number)
            with pytest.raises(ServerUnavailable):
                await alone.read([("PING",)])
            return await alone.read([("PING",)])

    with refused(ServerUnavailable, "unreachable", error=""):
        finish(lost())
    assert client_id(net)


def test_a_first_use_is_one_threads_at_a_time(net: BlockingNet) -> None:
    inside: list[int] = []
    most: list[int] = []

    async def use() -> None:
        async with net.once():
            inside.append(1)
            most.append(len(inside))
            await net.sleep(0.001)
            inside.pop()

    threads = [threading.Thread(target=lambda: finish(use())) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: not any(thread.is_alive() for thread in threads))
    assert most == [1] * 4


def interrupted(error: BaseException) -> Callable[..., Any]:
    def interrupt(*_: Any) -> Any:
        raise error

    return interrupt


INTERRUPTS = pytest.mark.parametrize("error", [KeyboardInterrupt(), StopConsuming(), MemoryError()], ids=repr)


@INTERRUPTS
def test_no_connection_goes_on_watching_the_policy(
    make: Callable[..., Sequencer], monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Else EXEC is refused to whoever has that connection next, once another thread has set the policy."""
    seq = make("wide", shards=4)
    with seq._net.link(), monkeypatch.context() as patch:  # as another thread has it
        patch.setattr(sequencer.queue.registry.generation_search, "merge_policy", interrupted(error))
        with pytest.raises(type(error)):
            seq.append("x", group="g")
    seq.append("x", group="g")  # over the other thread's connection, which came back last
    with seq._net.link():
        assert seq.append_many({"body": n, "group": n} for n in range(20)).appended == 20


@INTERRUPTS
def test_no_connection_stays_in_the_question_of_rights(
    seq: Sequencer, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sequencer.doctor.rights, "plain_commands", interrupted(error))  # what it is about to ask for
        with pytest.raises(type(error)):
            seq.append("x", group="g")
    seq.append("x", group="g")
    assert seq.info().backlog == 1
