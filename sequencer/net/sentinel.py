"""A primary that Sentinels watch: the URL that names them, and where it is now.

redis-py's Sentinel takes the answer of SENTINEL MASTERS, which names the old primary until all replicas follow the new
one, and keeps connections to Sentinels that nobody closes. Here each connect asks over a connection of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

import redis

from ..errors import SequencerError, ServerUnavailable
from .refusals import translate

MARK = "+sentinel"
REPLY_S = 1.0
"""How long one Sentinel may take before the next one is asked: those of a failover are where the primary was."""
_URL = re.compile(r"(\w+)\+sentinel://([^/?#]*@)?([^/?#@\s]+)/([^/?#@]+)(/[^/?#@]*)?(?:\?([^?#@]*))?")
Place = tuple[str, int]


class Sentinels:
    """`redis+sentinel://[user:pass@]h1[:26379],h2/NAME[/db][?sentinel_username=&sentinel_password=]`. Connected only
    while they are asked, so threads and forks may share it.
    """

    make: Callable[..., Any]
    """Makes a connection; is set before one is asked."""

    def __init__(self, url: str) -> None:
        """Raises ValueError."""
        found = _URL.fullmatch(url)
        if found is None:
            raise ValueError
        scheme, user, hosts, name, path, query = (part or "" for part in found.groups())
        self.primary, options = unquote(name), list[str]()
        self.login: dict[str, Any] = {"username": None, "password": None, "db": 0}
        for option in query.split("&"):
            key, _, value = option.partition("=")
            if key in ("sentinel_username", "sentinel_password"):
                self.login[key.removeprefix("sentinel_")] = unquote(value)
            else:
                options.append(option)
        parts = [urlsplit(f"//{host}") for host in hosts.split(",")]
        self.places: list[Place] = [(one.hostname or "", one.port or 26379) for one in parts]
        if not all(host for host, _ in self.places):
            raise ValueError
        self.server_url = f"{scheme}://{user}primary{path}?{'&'.join(options)}"
        """What its URL would be, were it a server called `primary`."""
        self.name = f"{scheme}{MARK}://{'***@' if user or self.login['password'] else ''}{hosts}/{name}{path}"

    def ask(self, place: Place, *questions: str) -> list[Any]:
        """What one of them answers about the primary; only answers after the first may be errors. Raises
        SequencerError.
        """
        connection = self.make(host=place[0], port=place[1], **self.login)
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
            raise translate(error, f"{place[0]}:{place[1]}") from error
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
                failures.append(f"{place[0]}:{place[1]}: {host}:{port} is down")
            except SequencerError as error:
                failures.append(f"{place[0]}:{place[1]}: {error.fields['error']}")
        raise ServerUnavailable("primary_unknown", server=self.name, error="; ".join(failures))


def state_of(words: list[bytes]) -> dict[str, str]:
    """The answer to SENTINEL MASTER: fields and values in turn."""
    texts = [word.decode("utf-8", "replace") for word in words]
    return dict(zip(texts[::2], texts[1::2], strict=True))
