"""What a run of `consume` or `run` did, said at its end: on standard error, or as an event of a log in JSON."""

from __future__ import annotations

from dataclasses import asdict

from ..client import Sequencer
from ..errors import SequencerError
from ..processes.consumer_process import Totals
from ..processes.logs import background_writing, emit_of_service
from ..texts.answers import answer_text
from ..texts.events import event
from ..texts.words import many, plain
from ..values.views import QueueInfo
from .output import say


def look_at(client: Sequencer) -> QueueInfo | None:
    """The queue at the end of the run; None, with a message, if the server is away just then."""
    try:
        return client.info()
    except SequencerError as error:
        say(plain(f"the state of the queue is unknown: {error}"))
        return None


def summarize(queue: str, totals: Totals, consumers: int, log_format: str, *, names_queue: bool = False) -> None:
    """What this run did for a queue, as a line or as the event "service ended"."""
    ended = event("service ended", queue, consumers=consumers, **asdict(totals))
    if log_format == "json":
        with background_writing():
            emit_of_service(ended)
    else:
        say(f"{queue}: {ended.detail}" if names_queue else ended.detail)


def say_left(left: QueueInfo, namespace: str) -> None:
    """How the queue is, apart from what this run did: others may work on it as well."""
    states = {"parked group": left.parked, "paused group": left.paused, "dead letter": left.dead}
    state = [many(count, name) for name, count in states.items() if count] + ["paused"] * left.is_paused
    say(f"queue {left.queue} now: {', '.join([many(left.backlog, 'message'), *state])}")
    if left.parked > 1:
        say(answer_text("parked_by_error", queue=left.queue, namespace=namespace))
