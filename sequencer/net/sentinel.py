"""A primary that Sentinels watch: the URL that names them, and where it is now.

redis-py's Sentinel takes the answer of SENTINEL MASTERS, which names the old primary until all replicas follow the new
one, and keeps connections to Sentinels that nobody closes. Here each connect asks over a connection of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import redis

from ..errors import SequencerError, ServerUnavailable
from .refusals import translate
from .slots import Place, named

REPLY_S = 1.0
"""How long one Sentinel may take before the next one is asked: those of a failover are where the primary was."""


class Sentinels:
    """Connected only while they are asked, so threads and forks may share it."""

    def __init__(self, places: Sequence[Place], primary: str, name: str, make: Callable[[Place], Any]) -> None:
        """`make`: a connection to one, not connected yet."""
        self.places, self.primary, self.name, self.make = [*places], primary, name, make

    def ask(self, place: Place, *questions: str) -> list[Any]:
        """What one of them answers about the primary; only answers after the first may be errors. Raises
        SequencerError.
        """
        connection = self.make(place)
        try:
            connection.connect()
            answers = list[Any]()
            for question in questions:
                connection.send_command("SENTINEL", question, self.primary)
                try:
                    answers.append(connection.read_response())
                except redis.ResponseError as error:
                    answers.append(error)
            if isinstance(answers[0], Exception):
                raise answers[0]
            return answers
        except (redis.RedisError, OSError, UnicodeError) as error:
            raise translate(error, named(place)) from error
        finally:
            connection.disconnect()

    def place(self) -> dict[str, Any]:
        """Host and port of the primary, from the first that knows one that is up. Raises ServerUnavailable."""
        failures = []
        for place in self.places:
            try:
                words, address = self.ask(place, "MASTER", "GET-MASTER-ADDR-BY-NAME")
                state, (host, port) = state_of(words), [word.decode("utf-8", "replace") for word in address]
                if "down" not in state["flags"] or (host, port) != (state["ip"], state["port"]):
                    self.places = [place, *[one for one in self.places if one != place]]
                    return {"host": host, "port": int(port)}
                failures.append(f"{named(place)}: {host}:{port} is down")
            except SequencerError as error:
                failures.append(f"{named(place)}: {error.fields['error']}")
        raise ServerUnavailable("primary_unknown", server=self.name, error="; ".join(failures))


def state_of(words: list[bytes]) -> dict[str, str]:
    """The answer to SENTINEL MASTER: fields and values in turn."""
    texts = [word.decode("utf-8", "replace") for word in words]
    return dict(zip(texts[::2], texts[1::2], strict=True))
