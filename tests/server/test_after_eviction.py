"""What an eviction leaves behind, and what `doctor --repair` makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sequencer import Message, Sequencer, list_queues
from sequencer.doctor.diagnose import diagnose, is_healthy
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.store.keys import index_key, lane_keys

KEYS = lane_keys("sequencer", "q", 0)


@pytest.fixture
def admin(start_server: Callable[..., str]) -> Iterator[Link]:
    """The way to a server of the test's own."""
    link = Link(Endpoint.from_url(f"unix://{start_server()}"))
    yield link
    link.close()


@pytest.fixture
def seq(admin: Link) -> Iterator[Sequencer]:
    with Sequencer("q", str(admin.endpoint.url)) as found:
        yield found


def mended(seq: Sequencer) -> None:
    seq.doctor(repair=True)
    assert is_healthy(seq.doctor())


def test_a_group_whose_parked_head_lost_its_body_goes_on_once_that_is_repaired(admin: Link, seq: Sequencer) -> None:
    """Else `parked` would say for ever that a message which is not there can't be read."""
    seq.append(1, "g", id="lost", score=1)
    seq.append(2, "g", id="next", score=2)
    admin.command("HDEL", KEYS.body("g"), "lost")
    seq.consume(lambda _: None, until_empty=True)
    assert [info.failure and info.failure.type for info in seq.parked()] == ["Undecodable"]
    mended(seq)
    assert list(seq.parked()) == []
    seen: list[str] = []
    seq.consume(lambda message: seen.append(message.id), until_empty=True)
    assert seen == ["next"]


def test_a_group_that_is_parked_for_another_message_stays_so(admin: Link) -> None:
    with Sequencer("q", str(admin.endpoint.url), max_attempts=1) as seq:
        seq.append(1, "g", id="bad", score=1)
        seq.append(2, "g", id="lost", score=2)

        def fail(_: Message) -> None:
            raise ValueError("no")

        seq.consume(fail, until_empty=True)
        admin.command("HDEL", KEYS.body("g"), "lost")
        mended(seq)
        assert [(info.head_id, info.failure and info.failure.type) for info in seq.parked()] == [("bad", "ValueError")]


@pytest.mark.parametrize(("score", "is_said"), [(7, True), (None, False)])
def test_a_dead_letter_says_that_its_score_was_lost(
    admin: Link, seq: Sequencer, score: int | None, is_said: bool
) -> None:
    seq.append(1, "g", score=score)
    admin.command("DEL", KEYS.order("g"))
    mended(seq)
    (letter,) = seq.dead()
    said = "its group had no place for it in its order; its score was lost with that, and its arrival stands in for it"
    assert (letter.error.message == said) == is_said


def test_the_doctor_lists_again_what_is_missing_from_the_index(admin: Link, seq: Sequencer) -> None:
    seq.append(1, "g")
    admin.command("DEL", index_key("sequencer"))
    assert list_queues(admin.endpoint.url) == []
    diagnose(admin.endpoint, "sequencer", repair=True)
    assert list_queues(admin.endpoint.url) == ["q"]
