"""Where the server is, how to connect to it, and whether it may be used. Driver errors become ours here.

Every setting that changes between redis-py 6.4 and 8 is given outright (protocol, timeouts, retries), and connections
are used directly: a pool's hidden retries would send a claim twice, and ours are decided call by call in `link.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from .errors import (
    ConfigurationError,
    DataError,
    QueueFull,
    SequencerError,
    ServerNotUsable,
    ServerUnavailable,
)

Connection = Any
"""A redis-py connection (or fakeredis's): untyped in redis-py, and the only place where `Any` stands for the driver."""

MIN_VERSION = (6, 2)
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

    def __init__(self, make: Callable[[], Connection], name: str, url: str | None) -> None:
        self.make = make
        """Makes a connection that is not connected yet."""
        self.name = name
        """How to call it in errors and logs; never holds a password."""
        self.url = url
        """The URL for other processes, with its password; None when made from a client."""

    @classmethod
    def from_url(cls, url: str) -> Endpoint:
        """`redis:// rediss:// unix:// valkey:// valkeys://`. Raises ConfigurationError."""
        scheme, found, rest = url.partition("://")
        if not found or scheme not in _SCHEMES:
            raise ConfigurationError(
                f"server URL {redact(url)!r} must begin with redis://, rediss://, unix:// or valkey://"
            )
        with suppress(ValueError, TypeError, AttributeError, redis.RedisError):
            urlsplit(url).port  # noqa: B018 - raises for a bad port, which redis-py would say with the password
            pool = redis.ConnectionPool.from_url(f"{_SCHEMES[scheme]}://{rest}")
            if any(not 0 <= (pool.connection_kwargs.get(name) or 0) <= MAX_TIMEOUT_S for name in TIMEOUTS):
                raise ValueError
            if not 0 <= (pool.connection_kwargs.get("db") or 0) < 2**31:
                raise ValueError
            make = _maker(pool, TIMEOUTS)
            make()  # does not connect, but knows which options there are
            return cls(make, redact(url), url)
        # Raised here, not where it was caught: the error there may hold the password, and would go along as context.
        raise ConfigurationError(f"server URL {redact(url)!r} can't be read; check port, path and options")

    @classmethod
    def from_client(cls, client: Any) -> Endpoint:
        """The server of a redis-py client (Sentinel-managed ones too); its own settings and pool stay untouched."""
        if isinstance(client, Endpoint):
            return client
        pool = getattr(client, "connection_pool", None)
        if isinstance(client, redis.RedisCluster):
            raise ConfigurationError("a RedisCluster client is not supported yet; pass a client of one server")
        if not isinstance(client, redis.Redis) or pool is None:
            raise ConfigurationError(
                f"redis={type(client).__name__} must be a URL, a redis.Redis client, or None for the embedded server"
            )
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
    options = {k: v for k, v in pool.connection_kwargs.items() if "maint_notifications" not in k}
    options.update({name: value for name, value in SETTINGS.items() if name not in kept or not options.get(name)})
    for name in ("retry_on_timeout", "retry_on_error", "cache", "cache_config"):
        options.pop(name, None)
    kind = pool.connection_class  # or a function that makes one
    if isinstance(kind, type) and issubclass(kind, redis.connection.AbstractConnection):
        options.setdefault("command_packer", _packer())
    return lambda: pool.connection_class(**options)


# One table from the server's words to our errors. Order matters: the first that fits.
_LACKS = "it lacks a command; Redis 6.2 or later, or Valkey, is needed"
_REFUSED = "it refused user or password; check the URL"
_NO_KEYS = "the user lacks the right to a key; grant ~{NAMESPACE:QUEUE:* and ~NAMESPACE:queues with ACL SETUSER"
_UNTRUSTED = "its certificate was refused; check the host's name, the dates, and ssl_ca_certs in the URL"
_HINTS = {
    "rediss:": " (redis:// without TLS; ssl_certfile and ssl_keyfile if it wants a client certificate)",
    "redis:": " (rediss:// for TLS)",
}
_REPLIES: tuple[tuple[str, type[SequencerError], str], ...] = (
    ("OOM", QueueFull, "the server is at its maxmemory; retry when consumers have drained it"),
    ("command not allowed when used memory", QueueFull, "the server is at its maxmemory; retry later"),
    ("NOAUTH", ServerNotUsable, "it wants a password; put it into the URL: redis://:PASSWORD@host"),
    ("Authentication required", ServerNotUsable, "it wants a password; put it into the URL: redis://:PASSWORD@host"),
    ("WRONGPASS", ServerNotUsable, _REFUSED),
    ("invalid password", ServerNotUsable, _REFUSED),
    ("invalid username-password", ServerNotUsable, _REFUSED),
    ("AUTH <password> called", ServerNotUsable, "it has no password, but the URL gives one; leave it out"),
    ("ermissions to access", ServerNotUsable, _NO_KEYS),
    ("can't access at least one of the keys", ServerNotUsable, _NO_KEYS),
    ("NOPERM", ServerNotUsable, "the user lacks a right; grant it with ACL SETUSER"),
    ("no permissions to", ServerNotUsable, "the user lacks a right; grant it with ACL SETUSER"),
    ("can't run this command", ServerNotUsable, "the user lacks a right; grant it with ACL SETUSER"),
    ("has no permissions", ServerNotUsable, "the user lacks a right; grant it with ACL SETUSER"),
    ("CERTIFICATE_VERIFY_FAILED", ServerNotUsable, _UNTRUSTED),
    ("certificate required", ServerNotUsable, "it wants a client certificate; give ssl_certfile and ssl_keyfile"),
    ("READONLY", ServerUnavailable, "it is a replica; connect to the primary"),
    ("write against a read only", ServerUnavailable, "it is a replica; connect to the primary"),
    ("LOADING", ServerUnavailable, "it is loading its data; try again"),
    ("is loading the dataset", ServerUnavailable, "it is loading its data; try again"),
    ("MISCONF", ServerUnavailable, "it can't persist to disk and refuses writes; look at its log"),
    ("NOREPLICAS", ServerUnavailable, "it has too few replicas and refuses writes; try again"),
    ("BUSY", ServerUnavailable, "it is busy with a long script; try again"),
    ("UNBLOCKED", ServerUnavailable, "it became a replica; connect to the primary"),
    ("WAIT cannot be used with replica", ServerUnavailable, "it is a replica; connect to the primary"),
    ("MASTERDOWN", ServerUnavailable, "it is a replica that has lost its primary; connect to the primary"),
    ("MOVED", ServerNotUsable, "it is a cluster node, which is not supported yet"),
    ("CROSSSLOT", ServerNotUsable, "it is a cluster node, which is not supported yet"),
    ("CLUSTERDOWN", ServerNotUsable, "it is a cluster node, which is not supported yet"),
    ("WRONGTYPE", DataError, "a key of this queue holds another type; was it written by something else?"),
    ("CLOCK of the lane", DataError, "others wrote the clock of a lane; `doctor --repair` sets it right"),
    ("DB index is out of range", ServerNotUsable, "it has no database of that number; correct it in the URL"),
    ("unknown command", ServerNotUsable, _LACKS),
    ("unknown subcommand", ServerNotUsable, _LACKS),
)


_CLASSES = {
    "MASTERDOWN": redis.exceptions.MasterDownError,
    "MOVED": redis.exceptions.MovedError,
    "CROSSSLOT": redis.exceptions.ClusterCrossSlotError,
    "CLUSTERDOWN": redis.exceptions.ClusterDownError,
}
"""Replies whose first word redis-py takes off."""


def translate(error: BaseException, name: str) -> SequencerError:
    """Our error for a driver's; the original stays as its cause."""
    text = str(error)
    for words, kind, advice in _REPLIES:
        if words in text or isinstance(error, _CLASSES.get(words, ())):
            return kind(f"server {name}: {advice} ({text[:200]})")
    if isinstance(error, redis.exceptions.AuthenticationError):
        return ServerNotUsable(f"server {name}: {_REFUSED} ({text[:200]})")
    if isinstance(error, redis.InvalidResponse):
        return ServerUnavailable(f"server {name} gave an answer that is none of its protocol: {text[:200]}")
    if isinstance(error, redis.ConnectionError | redis.TimeoutError | OSError | UnicodeError):
        hint = next((hint for scheme, hint in _HINTS.items() if name.startswith(scheme) and "refused" not in text), "")
        return ServerUnavailable(
            f"server {name} can't be reached: {text[:200]}; is it running, and the URL right?{hint}"
        )
    return DataError(f"server {name} answered with an error: {text[:300]}")


class Reading:
    """What can't be read of the server's data, since others wrote it, is a DataError. Ours pass, and so do signals.

    A class: every call goes through two of these, and a generator would cost it ten times as much.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        unread = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
        if isinstance(error, unread) and not isinstance(error, SequencerError):
            said = f"{type(error).__name__}: {str(error)[:200]}"
            raise DataError(
                f"server {self.name} holds what no client of ours wrote ({said}); see what doctor says"
            ) from error


def check_server(info: dict[str, str], name: str) -> None:
    """Refuse a server that would lose or refuse data: from its INFO. Raises ServerNotUsable, ServerUnavailable."""
    version = info.get("redis_version", "")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers and numbers < MIN_VERSION:
        raise ServerNotUsable(f"server {name} is Redis {version}; 6.2 or later, or Valkey, is needed")
    if info.get("role") == "slave":
        raise ServerNotUsable(f"server {name} is a replica; connect to the primary")
    if info.get("loading") == "1":
        raise ServerUnavailable(f"server {name} is loading its data; try again")
    if info.get("cluster_enabled") == "1":
        raise ServerNotUsable(f"server {name} runs in cluster mode, which is not supported yet")
    policy = info.get("maxmemory_policy", "noeviction")
    if info.get("maxmemory", "0") != "0" and policy != "noeviction":
        raise ServerNotUsable(
            f"server {name} evicts keys (maxmemory-policy {policy}), which deletes halves of groups without an error; "
            "use: CONFIG SET maxmemory-policy noeviction"
        )


def parse_info(text: str) -> dict[str, str]:
    """INFO's reply as a dict."""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line and not line.startswith("#"))
    return {key: value for key, _, value in pairs}


def server_url_from_environment() -> str | None:
    """`SEQUENCER_REDIS`, or None when it is unset or empty."""
    return os.environ.get("SEQUENCER_REDIS") or None
