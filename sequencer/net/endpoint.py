"""Where the server is, how to connect to it, and what passes on one connection.

Every setting that changes between redis-py 6.4 and 8 is given outright (protocol, timeouts, retries), and connections
are used directly: a pool's hidden retries would send a claim twice, and `repeats.py` decides what is sent again.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from redis.asyncio.retry import Retry as AwaitedRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from ..errors import ConfigurationError
from ..settings.options import QueueOptions
from .cluster import Cluster, ClusterConnection
from .refusals import translate
from .repeats import ATTEMPTS
from .sentinel import REPLY_S, Sentinels
from .slots import Place, named
from .urls import PORTS, SCHEMES, parse_several, redact

Connection = Any
"""A redis-py connection (or fakeredis's): untyped in redis-py, and the only place where `Any` stands for the driver."""

CALL_TIMEOUT_S = 5.0
"""How long a call to the server may take, with all its repeats, unless somebody says otherwise."""
HASTY_S = 0.1
"""For all repeats of what is only asked to say how things are now."""
SETTINGS: dict[str, Any] = {
    "protocol": 2,
    "decode_responses": False,
    "encoding": "utf-8",
    "encoding_errors": "surrogateescape",
    "socket_timeout": CALL_TIMEOUT_S,
    "socket_connect_timeout": CALL_TIMEOUT_S,
    "retry": Retry(NoBackoff(), 0),
    "health_check_interval": 0,
}
TIMEOUTS = ("socket_timeout", "socket_connect_timeout")
"""Settings that a URL may give, in seconds: rediss://host?socket_timeout=1"""
MAX_TIMEOUT_S = 86_400.0
SENTINEL_POOLS = redis.sentinel.SentinelConnectionPool, redis.asyncio.sentinel.SentinelConnectionPool
_BESIDE = "connection_pool", "redis_connect_func", "himport_registry"
"""Options of connections that serve another client: a cluster's would choose a replica."""
_DATABASE = re.compile(r"/?|/[0-9]+")
"""The path of a URL: redis-py takes no number for database 0, and /1/2 for 12."""


class Endpoint:
    """A server to connect to, made from a URL or from a redis-py client. Nothing connects until `connect`."""

    def __init__(
        self,
        make: Callable[[], Connection],
        name: str,
        url: str | None,
        total_s: float = CALL_TIMEOUT_S,
        pool: Any = None,
        sentinels: Sentinels | None = None,
        cluster: Cluster | None = None,
        limits: dict[str, Any] | None = None,
    ) -> None:
        self.make = make  # makes a connection that is not connected yet
        self.name = name  # how to call it in errors and logs; never holds a password
        self.url = url  # the URL for other processes, with its password; None when made from a client
        self.total_s = total_s
        """How long a call may take with all its repeats: no attempt begins after it, and no answer takes longer."""
        self._limits = {} if limits is None else limits  # what `make` gives connections in place of their timeouts
        self._pool = pool  # a redis-py pool, for its options
        self.sentinels = sentinels  # which know the host and port
        self.cluster = cluster
        self.attempts: float = math.inf if cluster else ATTEMPTS
        """How often a repeatable call is sent, within its time: another node of a cluster may be promoted meanwhile."""

    def limit(self, total_s: float) -> None:
        """Set `total_s`, in place of what the URL says; before a connection is made."""
        self.total_s = total_s
        self._limits |= dict.fromkeys(TIMEOUTS, total_s)

    @classmethod
    def from_url(cls, url: str) -> Endpoint:
        """`redis:// rediss:// unix:// valkey:// valkeys://`, or `redis+sentinel://`, `redis+cluster://`, `rediss+...`.

        Raises ConfigurationError.
        """
        if not url.strip():  # a variable got no value, and data would go to another server without a word
            raise ConfigurationError("url_empty")
        scheme, found, _ = url.partition("://")
        scheme, is_several, kind = scheme.partition("+")
        if not found or scheme not in SCHEMES or (is_several and (kind not in PORTS or scheme == "unix")):
            raise ConfigurationError("url_scheme_unknown", url=redact(url))
        with suppress(ValueError, TypeError, AttributeError, redis.RedisError):
            several = parse_several(url) if kind else None
            server_url = several.server_url if several else url
            parts = urlsplit(server_url)
            parts.port  # noqa: B018 - raises for a bad one, which redis-py would say with the password
            if scheme != "unix" and not _DATABASE.fullmatch(parts.path):
                raise ValueError
            pool = redis.ConnectionPool.from_url(SCHEMES[scheme] + server_url[len(scheme) :])
            if any(not 0 <= (pool.connection_kwargs.get(name) or 0) <= MAX_TIMEOUT_S for name in TIMEOUTS):
                raise ValueError
            if not 0 <= (pool.connection_kwargs.get("db") or 0) < (1 if kind == "cluster" else 2**31):
                raise ValueError
            total_s = pool.connection_kwargs.get("socket_timeout") or CALL_TIMEOUT_S
            pool.connection_kwargs.setdefault("socket_connect_timeout", total_s)
            own = dict[str, Any]()
            _maker(pool, own, TIMEOUTS)()  # does not connect, but knows which options there are
            if several and kind == "cluster":
                return cls._of_cluster(Cluster(several.places, several.name), pool, url, total_s)
            sentinels = None
            if several:
                reply = dict.fromkeys(TIMEOUTS, min(REPLY_S, total_s))
                login = {"username": None, "password": None, "db": 0, **several.login}
                ask = _nodes_of(pool, reply, **login)
                sentinels = Sentinels(several.places, several.primary, several.name, ask)
            make = _maker(pool, own, TIMEOUTS, sentinels)
            return cls(make, redact(url), url, total_s, pool, sentinels, limits=own)
        # Raised here, not where it was caught: the error there may hold the password, and would go along as context.
        raise ConfigurationError(f"{kind}_url_unreadable" if kind else "url_unreadable", url=redact(url))

    @classmethod
    def _of_cluster(
        cls, cluster: Cluster, pool: Any, url: str | None = None, total_s: float = CALL_TIMEOUT_S
    ) -> Endpoint:
        limits = dict[str, Any]()
        cluster.make = _nodes_of(pool, limits)
        return cls(lambda: ClusterConnection(cluster), cluster.name, url, total_s, pool, None, cluster, limits)

    @classmethod
    def from_client(cls, client: Any) -> Endpoint:
        """The server of a redis-py client, also of asyncio or Sentinel; its own settings and pool stay untouched."""
        if isinstance(client, Endpoint):
            return client
        if isinstance(client, redis.RedisCluster | redis.asyncio.RedisCluster):
            return cls._of_cluster(*_cluster_of(client))
        pool = getattr(client, "connection_pool", None)
        if not isinstance(client, redis.Redis | redis.asyncio.Redis) or pool is None:
            raise ConfigurationError("redis_invalid", kind=type(client).__name__)
        own, limits, sentinels = pool, dict[str, Any](), None
        if isinstance(client, redis.asyncio.Redis) or isinstance(pool, SENTINEL_POOLS):
            own = _converted(pool, redis)
        name = str(own.connection_kwargs.get("path") or named(_place_of(own)))
        if isinstance(pool, SENTINEL_POOLS):
            asked = [_converted(one.connection_pool, redis) for one in pool.sentinel_manager.sentinels]
            name = f"{','.join(named(_place_of(one)) for one in asked)}/{pool.service_name}"
            ask = _nodes_of(asked[0], dict.fromkeys(TIMEOUTS, REPLY_S))
            sentinels = Sentinels([*map(_place_of, asked)], pool.service_name, name, ask)
        return cls(_maker(own, limits, (), sentinels), name, None, pool=own, sentinels=sentinels, limits=limits)

    def make_awaited(self, place: Place | None = None) -> Connection:
        """A connection for an event loop, not connected yet, that reads without a time limit. Asks Sentinel. `place`:
        of a node, in a cluster.
        """
        given: Any = {"retry": AwaitedRetry(NoBackoff(), 0)}
        given |= {"host": place[0], "port": place[1]} if place else {}
        pool, kept = _converted(self._pool, redis.asyncio), TIMEOUTS if self.url else ()
        return _maker(pool, {**self._limits, "socket_timeout": None}, kept, self.sentinels, **given)()

    def of_shards(self, count: int) -> list[Endpoint]:
        """One for each shard, where shards may be on several nodes: then what is asked of one must not hold up what is
        asked of the others. Else this one alone.
        """
        return [self] * count if self.cluster else [self]

    def hasty(self) -> Endpoint:
        """The same, for who asks what is so now: of a cluster nothing is waited for."""
        one = copy(self)
        one.total_s = HASTY_S if self.cluster else self.total_s
        return one

    def nodes(self) -> list[Endpoint]:
        """Each primary of a cluster alone, past all routing; one server: itself. Raises SequencerError."""
        if (cluster := self.cluster) is None:
            return [self]
        return [Endpoint(partial(cluster.connected, one), named(one), None, HASTY_S) for one in cluster.primaries()]

    @property
    def is_real(self) -> bool:
        """Whether its connections are redis-py's own; fakeredis's are not."""
        return _is_real(getattr(self._pool, "connection_class", None))

    def connect(self) -> Connection:
        """A fresh connection. Raises ServerUnavailable or ServerNotUsable, naming the server and what to do."""
        try:
            connection = self.make()
            connection.connect()
        except (redis.RedisError, OSError, UnicodeError) as error:
            raise translate(error, self.name) from error
        return connection


def _place_of(pool: Any) -> Place:
    return pool.connection_kwargs.get("host", "localhost"), pool.connection_kwargs.get("port", 6379)


def _nodes_of(pool: Any, limits: Mapping[str, Any], **login: Any) -> Callable[[Place], Connection]:
    """Makes a connection to one of several servers with the options of that pool."""
    return lambda place: _maker(pool, limits, TIMEOUTS, **login, host=place[0], port=place[1])()


def _cluster_of(client: Any) -> tuple[Cluster, Any]:
    """Its nodes, as far as it knows, and a pool with its options."""
    nodes = client.nodes_manager.startup_nodes.values()
    seeds = [(str(one.host), int(one.port)) for one in nodes]
    is_awaited = isinstance(client, redis.asyncio.RedisCluster)
    pool = next(iter(nodes)) if is_awaited else client.get_nodes()[0].redis_connection.connection_pool
    return Cluster(seeds, ",".join(map(named, seeds))), _converted(pool, redis)


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


def packer() -> _Packer | None:
    """None without hiredis, which is an extra."""
    try:
        return _Packer(import_module("hiredis").pack_command)
    except (ImportError, AttributeError):
        return None


def _maker(
    pool: Any,
    limits: Mapping[str, Any],
    kept: Sequence[str] = (),
    sentinels: Sentinels | None = None,
    **given: Any,
) -> Callable[[], Connection]:
    """Makes connections with a pool's options, and our settings but where the pool gives one of those `kept`; with
    `limits` as they are then.
    """
    options = {k: v for k, v in pool.connection_kwargs.items() if "maint_notifications" not in k}
    options.update({name: value for name, value in SETTINGS.items() if name not in kept or not options.get(name)})
    for name in ("retry_on_timeout", "retry_on_error", "cache", "cache_config"):
        options.pop(name, None)
    options.update(given)
    kind = pool.connection_class  # or a function that makes one
    if isinstance(kind, type) and issubclass(kind, redis.connection.AbstractConnection):
        options.setdefault("command_packer", packer())
    return lambda: pool.connection_class(**{**options, **limits, **(sentinels.place() if sentinels else {})})


def _is_real(kind: Any) -> bool:
    return str(getattr(kind, "__module__", "")).startswith("redis.")


def _converted(pool: Any, to: Any) -> Any:
    """A pool with these options whose connections are those of the module: `redis`, or `redis.asyncio`."""
    kind: Any = getattr(pool, "connection_class", None)
    if not _is_real(kind):
        raise ConfigurationError("redis_invalid", kind=getattr(kind, "__qualname__", str(kind)))
    options = {one: value for one, value in pool.connection_kwargs.items() if one not in _BESIDE}
    name = kind.__name__.removeprefix("SentinelManaged")
    return SimpleNamespace(connection_class=getattr(to, name), connection_kwargs=options)


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


class ServedNet:
    """What nets have in common: the server, which `start` starts if none was given."""

    def __init__(self, redis: Any, start: Callable[[], Endpoint]) -> None:
        self._endpoint, self._start, self._call_s = given_endpoint(redis), start, CALL_TIMEOUT_S

    @property
    def is_cluster(self) -> bool:
        return self._endpoint is not None and self._endpoint.cluster is not None

    @property
    def name(self) -> str:
        """How to call the server in a text, whether it was needed yet or not."""
        return self._endpoint.name if self._endpoint else "the embedded server"

    @property
    def given(self) -> Endpoint | None:
        """The server, unless it is the embedded one and was not needed yet."""
        return self._endpoint

    @property
    def endpoint(self) -> Endpoint:
        """The server; starts the embedded one when no other was given, which takes a moment."""
        if self._endpoint is None:
            self._endpoint = self._start()
            self._endpoint.limit(self._call_s)
        return self._endpoint

    def limit(self, options: QueueOptions) -> None:
        """Take over `call_timeout`. Raises ConfigurationError if replicas may be waited for longer than for a reply."""
        wait_s, endpoint = options.wait_timeout_s, self._endpoint
        call_s = options.call_timeout_s or (endpoint.total_s if endpoint else CALL_TIMEOUT_S)
        if options.wait_replicas and wait_s >= call_s:
            raise ConfigurationError("wait_timeout_too_long", wait_s=wait_s, call_s=call_s)
        self._call_s = call_s
        if endpoint and options.call_timeout_s:
            endpoint.limit(call_s)
