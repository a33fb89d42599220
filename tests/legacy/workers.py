"""Types of work, each with processes of its own, under one master: what `comom_queue` was for (002).

The master: `sequencer run`, beside the file `sequencer.toml`.
"""

from datetime import datetime
from typing import Any

from sequencer import Message, MessageInfo, Sequencer
from sequencer.values.views import QueueSnapshot

MAIL, REPORT = 1, 2
MOST_DUE = 1000


def queue(name: str) -> Sequencer:
    """A queue for a type. What has the same business key is done in turn; `callback` says which function does it."""
    return Sequencer(name, group_by=("p_key",), kind_by="callback", on_unknown="dead_letter", history_window=7 * 86_400)


mails, reports = queue("mails"), queue("reports")
QUEUES = {MAIL: mails, REPORT: reports}


def add(
    type: int,
    p_key: str,
    callback: str,
    param_content: dict[str, Any],
    *,
    mark: str = "",
    preexec_time: datetime | None = None,
) -> str:
    """Add a piece of work, to be done not before `preexec_time`; its id."""
    body = {"p_key": p_key, "callback": callback, "param_content": param_content}
    return QUEUES[type].append(body, headers={"mark": mark}, at=preexec_time).id


def by_id(id: str) -> list[MessageInfo]:
    """A row by its id, whatever its type: its phase, its attempts, and the consumer that did it."""
    return [info for queue in QUEUES.values() for info in queue.find(id)]


def by_key(type: int, p_key: str) -> list[str]:
    """Ids of a business key: those that wait, then those that are done, the newest first."""
    waiting = QUEUES[type].peek([p_key])
    return [message.id for message in waiting] + [info.id for info in QUEUES[type].history([p_key])]


def look(seen: QueueSnapshot) -> str | None:
    """The master calls this every two seconds, and logs what it says."""
    return f"{seen.due} business keys wait" if seen.due > MOST_DUE else None


@mails.step("send_mail")
def send_mail(message: Message) -> None:
    print(f"mail to {message.body['param_content']['to']}", flush=True)


@mails.step("send_receipt")
def send_receipt(message: Message) -> None:
    print(f"receipt {message.body['param_content']['number']}", flush=True)


@reports.step("month")
def month(message: Message) -> None:
    print(f"report of {message.body['param_content']['month']}", flush=True)
