"""Whether a queue exists, and the text if it does not: its name may be wrong."""

from __future__ import annotations

from contextlib import suppress

from ..client import QueueClients, Sequencer, list_queues
from ..errors import ConfigurationError, DataError, SequencerError, ServerNotUsable
from ..processes.logs import emit_of_service
from ..texts.events import event
from ..texts.words import plain
from ..values.checks import nearest
from .output import say


def require_queue(client: Sequencer) -> None:
    """Raises ConfigurationError, with the nearest name, for a queue that the server does not know.

    A wrong name would look like an empty queue. Not checked if the names can't be read.
    """
    namespace = client.options.namespace
    try:
        known = list_queues(client.endpoint, namespace)
        if client.queue in known or has_been_used(client):
            return
    except (ServerNotUsable, DataError):
        return
    about = {"queue": client.queue, "namespace": namespace, "server": client.endpoint.name}
    raise ConfigurationError("queue_unknown", **about, **nearest(client.queue, known))


def clients_of(queue: str | None, redis: str | None, namespace: str) -> list[Sequencer]:
    """A client of this queue, which has to be there; or of each of the namespace: then one that can't be used is named
    on standard error, and left out.
    """
    if queue:
        client = Sequencer(queue, redis, namespace=namespace)
        require_queue(client)
        return [client]
    clients, found = QueueClients(None, redis, namespace), list[Sequencer]()
    for client in map(clients.client, clients.names()):
        try:
            _ = client.policy
            found.append(client)
        except (ServerNotUsable, DataError) as error:
            say(plain(f"warning: skipped: {error}"))
    return found


def has_been_used(client: Sequencer) -> bool:
    """Whether the queue ever had a message, or is paused. Raises ServerError."""
    info = client.info()
    return bool(info.groups or info.is_paused or any(info.totals.values()))


def log_unused(client: Sequencer) -> None:
    """Where nobody has appended to the queue: perhaps its name is wrong, and we would wait for ever."""
    with suppress(SequencerError):  # a hint, no more
        if not has_been_used(client):
            emit_of_service(event("queue unused", client.queue, namespace=client.options.namespace))
