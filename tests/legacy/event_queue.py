"""Event handlers by code, in their sort order: what the table `oneday_event_queue` was for (000).

To run it: `sequencer consume events -n 2 --app event_queue:seq`.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sequencer import Message, Sequencer, StepCall

Handler = Callable[[Message, StepCall], Any]

seq = Sequencer(
    "events",
    group_by=(
        "id",
    ),  # each event by itself, as rows were; ("event_data.order_id",) keeps the events of an order in order
    id_by="id",
    kind_by="code",
    on_unknown="park",  # behind missing_wait, 10 minutes: a new version may know the code
    history_window=30 * 86_400,
)


def handles(code: str, name: str, sort_order: int = 1) -> Callable[[Handler], Handler]:
    """What the configuration had as `event/handle/<code>/<name>/{handle, sort_order}`.

    A handler is tried once. Its failure is noted, and the next one runs.
    """

    def register(function: Handler) -> Handler:
        seq.step(code, name=name, order=sort_order, optional=True)(function)
        return function

    return register


def add_event(id: int, code: str, event_data: dict[str, Any], scheduled_at: datetime | None = None) -> None:
    """Add an event. Repeating is harmless."""
    seq.append({"id": id, "code": code, "event_data": event_data}, at=scheduled_at)


@handles("order_invoice", "add_points")
def add_points(message: Message, step: StepCall) -> int:
    amount = step.results["init_invoice"]["amount"]  # what an earlier handler left for later ones
    if amount < 0:
        raise ValueError(f"no points for {amount}")
    print(f"{message.id}: {amount // 10} points")
    return int(amount // 10)


@handles("order_invoice", "tell_shop")
def tell_shop(message: Message, step: StepCall) -> None:
    print(f"{message.id}: shop told of {sorted(step.results)}")


@handles("order_invoice", "init_invoice", sort_order=0)
def init_invoice(message: Message, step: StepCall) -> dict[str, int]:
    print(f"{message.id}: invoice")
    return {"amount": message.body["event_data"]["amount"]}


@handles("order_closed", "close")
def close(message: Message, step: StepCall) -> None:
    print(f"{message.id}: closed")
