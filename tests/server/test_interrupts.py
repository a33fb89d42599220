"""An interrupt between two round trips that belong together: the connection is not left to others inside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import sequencer.doctor.rights
import sequencer.queue.registry.generation_search
from sequencer import Sequencer, StopConsuming


def interrupted(error: BaseException) -> Callable[..., Any]:
    def interrupt(*_: Any) -> Any:
        raise error

    return interrupt


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StopConsuming(), MemoryError()], ids=repr)
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


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StopConsuming(), MemoryError()], ids=repr)
def test_no_connection_stays_in_the_question_of_rights(
    seq: Sequencer, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sequencer.doctor.rights, "plain_commands", interrupted(error))  # what it is about to ask for
        with pytest.raises(type(error)):
            seq.append("x", group="g")
    seq.append("x", group="g")
    assert seq.info().backlog == 1
