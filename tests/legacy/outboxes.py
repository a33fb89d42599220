"""Events, timers and gifts whose row and message are of one transaction, as rows of MySQL were (000, 001, 003).

One relay for each: `sequencer outbox relay timers --db mysql://shop@db/shop --keep until_done`, and so on. With PyMySQL
a parameter is `%s`, and `connection` a cursor.
"""

from datetime import datetime
from typing import Any

from sequencer import Message
from sequencer.outbox import Inbox, Outbox

events, gifts = Outbox("events", group_by="id", id_by="id"), Outbox("gifts", group_by="gift", id_by="gift")
timers, inbox = Outbox("timers"), Inbox()


def add_event(connection: Any, id: int, code: str, event_data: dict[str, Any], at: datetime | None = None) -> None:
    """For the handlers of event_queue.py."""
    events.append(connection, {"id": id, "code": code, "event_data": event_data}, at=at)


def create_queue(connection: Any, id: str, params: dict[str, Any], seconds: float = 0) -> None:
    """For the methods of gift_compensation.py."""
    gifts.append(connection, {"gift": id, "params": params}, delay=seconds or None)


def create(connection: Any, key: str, seconds: float) -> None:
    """Set a timer, or set it again: its row names the message that counts."""
    class_name, method, *arguments = key.split("@")
    body = {"callback": f"{class_name}@{method}", "arguments": arguments}
    name = timers.append(connection, body, key, delay=seconds)
    connection.execute("REPLACE INTO tb_time_limit_task (k, message) VALUES (?, ?)", (key, name))


def delete(connection: Any, key: str) -> bool:
    """Delete a timer; whether there was one."""
    return bool(connection.execute("DELETE FROM tb_time_limit_task WHERE k = ?", (key,)).rowcount)


def fires(connection: Any, message: Message) -> bool:
    """Whether a timer fires, at the beginning of its handler's transaction: as it was set last, and once."""
    if not inbox.first(connection, message):
        return False
    where = "DELETE FROM tb_time_limit_task WHERE k = ? AND message = ?"
    return bool(connection.execute(where, (message.group[0], message.id)).rowcount)
