"""Where the server is, how to connect to it, and whether it may be used. Driver errors become ours here.

Every setting that changes between redis-py 6.4 and 8 is given outright (protocol, timeouts, retries), and connections
are used directly: a pool's hidden retries would send a claim twice, and ours are decided call by call in `scripts.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

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
    if parts.scheme not in _SCHEMES or "@" in parts.path:
        return f"{parts.scheme}://***" if parts.scheme in _SCHEMES else "***"
    user = "***@" if "@" in parts.netloc else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"


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
        try:
            urlsplit(url).port  # noqa: B018 - raises for a bad port, which redis-py would say with the password
            make = _maker(redis.ConnectionPool.from_url(f"{_SCHEMES[scheme]}://{rest}"))
            make()  # does not connect, but knows which options there are
        except (ValueError, TypeError, AttributeError, redis.RedisError):
            raise ConfigurationError(
                f"server URL {redact(url)!r} can't be read; check port, path and options"
            ) from None
        return cls(make, redact(url), url)

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
        except (redis.RedisError, OSError) as error:
            raise translate(error, self.name) from error
        return connection


def _maker(pool: Any) -> Callable[[], Connection]:
    options = {k: v for k, v in pool.connection_kwargs.items() if "maint_notifications" not in k}
    options.update(SETTINGS)
    for name in ("retry_on_timeout", "retry_on_error", "cache", "cache_config"):
        options.pop(name, None)
    return lambda: pool.connection_class(**options)


# One table from the server's words to our errors. Order matters: the first that fits.
_LACKS = "it lacks a command; Redis 6.2 or later, or Valkey, is needed"
_REFUSED = "it refused user or password; check the URL"
_REPLIES: tuple[tuple[str, type[SequencerError], str], ...] = (
    ("OOM", QueueFull, "the server is at its maxmemory; retry when consumers have drained it"),
    ("command not allowed when used memory", QueueFull, "the server is at its maxmemory; retry later"),
    ("NOAUTH", ServerNotUsable, "it wants a password; put it into the URL: redis://:PASSWORD@host"),
    ("Authentication required", ServerNotUsable, "it wants a password; put it into the URL: redis://:PASSWORD@host"),
    ("WRONGPASS", ServerNotUsable, _REFUSED),
    ("invalid password", ServerNotUsable, _REFUSED),
    ("invalid username-password", ServerNotUsable, _REFUSED),
    ("AUTH <password> called", ServerNotUsable, "it has no password, but the URL gives one; leave it out"),
    ("NOPERM", ServerNotUsable, "the user lacks a right; grant it with ACL SETUSER"),
    ("no permissions to", ServerNotUsable, "the user lacks a right; grant it with ACL SETUSER"),
    ("has no permissions", ServerNotUsable, "the user lacks a right; grant it with ACL SETUSER"),
    ("READONLY", ServerUnavailable, "it is a replica; connect to the primary"),
    ("write against a read only", ServerUnavailable, "it is a replica; connect to the primary"),
    ("LOADING", ServerUnavailable, "it is loading its data; try again"),
    ("Redis is loading", ServerUnavailable, "it is loading its data; try again"),
    ("MISCONF", ServerUnavailable, "it can't persist to disk and refuses writes; look at its log"),
    ("NOREPLICAS", ServerUnavailable, "it has too few replicas and refuses writes; try again"),
    ("BUSY", ServerUnavailable, "it is busy with a long script; try again"),
    ("MOVED", ServerNotUsable, "it is a cluster node, which is not supported yet"),
    ("CROSSSLOT", ServerNotUsable, "it is a cluster node, which is not supported yet"),
    ("CLUSTERDOWN", ServerNotUsable, "it is a cluster node, which is not supported yet"),
    ("WRONGTYPE", DataError, "a key of this queue holds another type; was it written by something else?"),
    ("unknown command", ServerNotUsable, _LACKS),
    ("unknown subcommand", ServerNotUsable, _LACKS),
)


def translate(error: BaseException, name: str) -> SequencerError:
    """Our error for a driver's; the original stays as its cause."""
    text = str(error)
    for words, kind, advice in _REPLIES:
        if words in text:
            return kind(f"server {name}: {advice} ({text[:200]})")
    if isinstance(error, redis.exceptions.AuthenticationError):
        return ServerNotUsable(f"server {name}: {_REFUSED} ({text[:200]})")
    if isinstance(error, redis.ConnectionError | redis.TimeoutError | OSError):
        return ServerUnavailable(f"server {name} can't be reached: {text[:200]}; is it running, and the URL right?")
    return DataError(f"server {name} answered with an error: {text[:300]}")


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
