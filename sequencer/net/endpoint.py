"""Where the server is, how to connect to it, and what passes on one connection.

Every setting that changes between redis-py 6.4 and 8 is given outright (protocol, timeouts, retries), and connections
are used directly: a pool's hidden retries would send a claim twice, and `repeats.py` decides what is sent again.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlsplit

import redis
import redis.sentinel
from redis.backoff import NoBackoff
from redis.retry import Retry

from ..errors import ConfigurationError
from .refusals import translate

Connection = Any
"""A redis-py connection (or fakeredis's): untyped in redis-py, and the only place where `Any` stands for the driver."""

SOCKET_TIMEOUT_S = 5.0
SETTINGS: dict[str, Any] = {
    "protocol": 2,
    "decode_responses": False,
    "encoding": "utf-8",
    "encoding_errors": "surrogateescape",
    "socket_timeout": SOCKET_TIMEOUT_S,
    "socket_connect_timeout": SOCKET_TIMEOUT_S,
    "retry": Retry(NoBackoff(), 0),
    "health_check_interval": 0,
}
TIMEOUTS = ("socket_timeout", "socket_connect_timeout")
"""Settings that a URL may give, in seconds: rediss://host?socket_timeout=1"""
MAX_TIMEOUT_S = 86_400.0
_SCHEMES = {"valkey": "redis", "valkeys": "rediss", "redis": "redis", "rediss": "rediss", "unix": "unix"}
_DATABASE = re.compile(r"/?|/[0-9]+")
"""The path of a URL: redis-py takes no number for database 0, and /1/2 for 12."""


def redact(url: str) -> str:
    """The URL as it may be shown: scheme, host, port and path; never user, password or query.

    Where a password is not escaped, its '/', '?' or '@' moves the parts about: then only the scheme is shown.
    """
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return f"{url.partition('://')[0]}://***" if "://" in url else "***"
    if parts.scheme not in _SCHEMES or "@" in parts.path + parts.query + parts.fragment:
        return f"{parts.scheme}://***" if parts.scheme in _SCHEMES else "***"
    user = "***@" if "@" in parts.netloc else ""
    text = f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"
    return "".join([char if char.isprintable() else quote(char, errors="replace") for char in text])


class Endpoint:
    """A server to connect to, made from a URL or from a redis-py client. Nothing connects until `connect`."""

    def __init__(
        self, make: Callable[[], Connection], name: str | Callable[[], str], url: str | None, total_s: float = math.inf
    ) -> None:
        self.make = make
        """Makes a connection that is not connected yet."""
        self._name = name
        self.url = url
        """The URL for other processes, with its password; None when made from a client."""
        self.total_s = total_s
        """How long a call may take with all its repeats, once an attempt failed: the `socket_timeout` of the URL."""

    @property
    def name(self) -> str:
        """How to call it in errors and logs; never holds a password."""
        return self._name if isinstance(self._name, str) else self._name()

    @classmethod
    def from_url(cls, url: str) -> Endpoint:
        """`redis:// rediss:// unix:// valkey:// valkeys://`. Raises ConfigurationError."""
        if not url.strip():  # a variable got no value, and data would go to another server without a word
            raise ConfigurationError("url_empty")
        scheme, found, rest = url.partition("://")
        if not found or scheme not in _SCHEMES:
            raise ConfigurationError("url_scheme_unknown", url=redact(url))
        with suppress(ValueError, TypeError, AttributeError, redis.RedisError):
            parts = urlsplit(url)
            parts.port  # noqa: B018 - raises for a bad one, which redis-py would say with the password
            if scheme != "unix" and not _DATABASE.fullmatch(parts.path):
                raise ValueError
            pool = redis.ConnectionPool.from_url(f"{_SCHEMES[scheme]}://{rest}")
            if any(not 0 <= (pool.connection_kwargs.get(name) or 0) <= MAX_TIMEOUT_S for name in TIMEOUTS):
                raise ValueError
            if not 0 <= (pool.connection_kwargs.get("db") or 0) < 2**31:
                raise ValueError
            total_s = pool.connection_kwargs.get("socket_timeout") or math.inf
            if total_s < math.inf:
                pool.connection_kwargs.setdefault("socket_connect_timeout", total_s)
            make = _maker(pool, TIMEOUTS)
            make()  # does not connect, but knows which options there are
            return cls(make, redact(url), url, total_s)
        # Raised here, not where it was caught: the error there may hold the password, and would go along as context.
        raise ConfigurationError("url_unreadable", url=redact(url))

    @classmethod
    def from_client(cls, client: Any) -> Endpoint:
        """The server of a redis-py client (Sentinel-managed ones too); its own settings and pool stay untouched."""
        if isinstance(client, Endpoint):
            return client
        pool = getattr(client, "connection_pool", None)
        if not isinstance(client, redis.Redis) or pool is None:
            raise ConfigurationError("redis_invalid", kind=type(client).__name__)
        if isinstance(pool, redis.sentinel.SentinelConnectionPool):
            return cls(_maker(pool), lambda: _sentinel_name(pool), None)
        options = pool.connection_kwargs
        place = options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
        return cls(_maker(pool), str(place), None)

    def connect(self) -> Connection:
        """A fresh connection. Raises ServerUnavailable or ServerNotUsable, naming the server and what to do."""
        connection = self.make()
        try:
            connection.connect()
        except (redis.RedisError, OSError, UnicodeError) as error:
            raise translate(error, self.name) from error
        return connection


def _sentinel_name(pool: Any) -> str:
    """The primary by its name and, once a Sentinel has said it, by its address."""
    if not pool.is_master:
        return f"a replica of {pool.service_name}"
    if pool.master_address:
        host, port = pool.master_address
        return f"primary {pool.service_name} ({host}:{port})"
    asked = [one.connection_pool.connection_kwargs for one in pool.sentinel_manager.sentinels]
    places = ", ".join(f"{one.get('host', 'localhost')}:{one.get('port', 26379)}" for one in asked)
    return f"primary {pool.service_name} (of Sentinel {places})"


class _Packer:
    """Packs a command as redis-py's packer for hiredis does, without asking what kind each of its words is: 0.7 us
    for an append, against 2.3 us. Ours are text, bytes and whole numbers; what else comes (a password) is left to it.
    """

    def __init__(self, pack: Callable[[tuple[Any, ...]], bytes]) -> None:
        self._pack = pack

    def pack(self, *words: Any) -> list[bytes]:
        try:
            return [self._pack(words)]
        except TypeError:
            packed: list[bytes] = redis.connection.HiredisRespSerializer().pack(*words)
            return packed


def _packer() -> _Packer | None:
    """None without hiredis, which is an extra."""
    try:
        return _Packer(import_module("hiredis").pack_command)
    except (ImportError, AttributeError):
        return None


def _maker(pool: Any, kept: Sequence[str] = ()) -> Callable[[], Connection]:
    """Makes connections with a pool's options, and our settings but where the pool gives one of those `kept`."""
    options = {k: v for k, v in pool.connection_kwargs.items() if "maint_notifications" not in k}
    options.update({name: value for name, value in SETTINGS.items() if name not in kept or not options.get(name)})
    for name in ("retry_on_timeout", "retry_on_error", "cache", "cache_config"):
        options.pop(name, None)
    kind = pool.connection_class  # or a function that makes one
    if isinstance(kind, type) and issubclass(kind, redis.connection.AbstractConnection):
        options.setdefault("command_packer", _packer())
    return lambda: pool.connection_class(**options)


def given_endpoint(redis: Any) -> Endpoint | None:
    """The server of a URL, of a client, or for None of `SEQUENCER_REDIS`; None for the embedded one."""
    given = os.environ.get("SEQUENCER_REDIS") if redis is None else redis
    if given is None:
        return None
    return Endpoint.from_url(given) if isinstance(given, str) else Endpoint.from_client(given)


def check_embedded_allowed() -> None:
    """Raises ConfigurationError where `SEQUENCER_EMBEDDED` forbids the embedded server, or says something else."""
    wish = os.environ.get("SEQUENCER_EMBEDDED")
    if wish == "never":
        raise ConfigurationError("embedded_disabled")
    if wish not in (None, "yes"):
        raise ConfigurationError("embedded_invalid", value=wish)
