"""What a server refuses, and what the driver raises, as our errors: one table."""

from __future__ import annotations

from copy import copy
from typing import Any

import redis

from ..errors import DataError, QueueFull, SequencerError, ServerNotUsable, ServerUnavailable

BROKEN = "a non local key in a cluster node"
"""What each script of a node answers for good, in Valkey 9, after one of any program read keys of two hash slots."""
SILENT = "Timeout reading from socket"
"""redis-py's words."""
_REPLIES: tuple[tuple[str, type[SequencerError], str], ...] = (
    ("OOM", QueueFull, "server_full"),
    ("command not allowed when used memory", QueueFull, "server_full"),
    ("NOAUTH", ServerNotUsable, "password_missing"),
    ("Authentication required", ServerNotUsable, "password_missing"),
    ("WRONGPASS", ServerNotUsable, "password_refused"),
    ("invalid password", ServerNotUsable, "password_refused"),
    ("invalid username-password", ServerNotUsable, "password_refused"),
    ("AUTH <password> called", ServerNotUsable, "password_needless"),
    ("ermissions to access", ServerNotUsable, "key_denied"),
    ("can't access at least one of the keys", ServerNotUsable, "key_denied"),
    ("NOPERM", ServerNotUsable, "right_denied"),
    ("no permissions to", ServerNotUsable, "right_denied"),
    ("can't run this command", ServerNotUsable, "some_right_denied"),  # so Redis 7.0 refuses in scripts
    ("has no permissions", ServerNotUsable, "right_denied"),
    ("CERTIFICATE_VERIFY_FAILED", ServerNotUsable, "certificate_refused"),
    ("certificate required", ServerNotUsable, "certificate_missing"),
    ("READONLY", ServerUnavailable, "is_replica"),
    ("write against a read only", ServerUnavailable, "is_replica"),
    ("LOADING", ServerUnavailable, "is_loading"),
    ("is loading the dataset", ServerUnavailable, "is_loading"),
    ("MISCONF", ServerUnavailable, "cannot_persist"),
    ("NOREPLICAS", ServerUnavailable, "too_few_replicas"),
    ("BUSY", ServerUnavailable, "is_busy"),
    ("UNBLOCKED", ServerUnavailable, "became_replica"),
    ("WAIT cannot be used with replica", ServerUnavailable, "is_replica"),
    ("MASTERDOWN", ServerUnavailable, "primary_lost"),
    ("MOVED", ServerNotUsable, "is_cluster"),
    ("CLUSTERDOWN", ServerUnavailable, "cluster_down"),
    ("cluster support disabled", ServerNotUsable, "is_no_cluster"),
    (BROKEN, ServerNotUsable, "scripts_broken"),
    ("WRONGTYPE", DataError, "wrong_type"),
    ("GENERATION ", ServerUnavailable, "generation_unsettled"),
    ("CLOCK of the shard", DataError, "shard_clock_foreign"),
    ("DB index is out of range", ServerNotUsable, "database_unknown"),
    ("unknown command", ServerNotUsable, "command_unknown"),
    ("unknown subcommand", ServerNotUsable, "command_unknown"),
)
"""From the server's words to our errors. Order matters: the first that fits."""


_CLASSES = {
    "MASTERDOWN": redis.exceptions.MasterDownError,
    "MOVED": redis.exceptions.MovedError,
    "CLUSTERDOWN": redis.exceptions.ClusterDownError,
}
"""Replies whose first word redis-py takes off."""


class NotHere(redis.ResponseError):
    """In place of an answer: a node of a cluster did not carry a command out, but may soon, or another one may now."""

    def __init__(self, error: redis.ResponseError, node: str) -> None:
        super().__init__(str(error))
        self.error, self.node = error, node
        self.is_known_where = isinstance(error, redis.exceptions.MovedError)


class NodeAway(redis.ResponseError):
    """In place of an answer: the connection to a node of a cluster failed; those to others did not."""

    def __init__(self, error: Exception, node: str, *, is_sent: bool) -> None:
        super().__init__(str(error))
        self.error, self.node = error, node
        self.maybe_sent = is_sent and not isinstance(error, redis.BusyLoadingError)


_MOVING = redis.exceptions.AskError, redis.exceptions.TryAgainError
NOT_HERE = (*_MOVING, redis.exceptions.ClusterDownError, redis.ReadOnlyError)
"""Answers of a cluster's nodes that are NotHere. MovedError is an AskError, MasterDownError a ClusterDownError."""


def is_stale(reply: object) -> bool:
    """Whether this is the answer to a call that brought another generation than its shard has: nothing was done."""
    return isinstance(reply, redis.ResponseError) and str(reply).startswith("GENERATION ")


def translate(error: BaseException, name: str) -> SequencerError:
    """Our error for a driver's; the original stays as its cause."""
    if isinstance(error, NotHere | NodeAway):
        failure = _of_node(error, f"{error.node} of {name}")
    else:
        failure = _of_driver(error, name)
    failure.__cause__ = error
    return failure


def _of_driver(error: BaseException, name: str) -> SequencerError:
    text = str(error)
    about: dict[str, Any] = {"server": name, "error": text[:200].rstrip(".")}
    for words, kind, code in _REPLIES:
        if words in text or isinstance(error, _CLASSES.get(words, ())):
            return kind(code, **about)
    if isinstance(error, redis.exceptions.AuthenticationError):
        return ServerNotUsable("password_refused", **about)
    if isinstance(error, redis.InvalidResponse):
        return ServerUnavailable("protocol_unknown", **about)
    if isinstance(error, redis.ConnectionError | redis.TimeoutError | OSError | UnicodeError):
        return ServerUnavailable("unreachable", **about)
    return DataError("server_error", **about)


def _of_node(error: NotHere | NodeAway, name: str) -> SequencerError:
    about, reply = {"server": name, "error": str(error)[:200].rstrip(".")}, error.error
    if isinstance(error, NodeAway):
        failure = copy(reply) if isinstance(reply, SequencerError) else translate(reply, name)
        if isinstance(failure, ServerUnavailable):
            failure.maybe_sent = error.maybe_sent
        return failure
    if isinstance(reply, _MOVING):
        return ServerUnavailable("slot_moving", **about)
    return translate(reply, name)
