"""What a server refuses, and what the driver raises, as our errors: one table."""

from __future__ import annotations

from typing import Any

import redis

from ..errors import DataError, QueueFull, SequencerError, ServerNotUsable, ServerUnavailable
from ..texts.commands import doctor_of

# One table from the server's words to our errors. Order matters: the first that fits.
_LACKS = "it lacks a command; Redis 7.0 or later, or Valkey, is needed"


_REFUSED = "it refused user or password; check the URL"


_NO_KEYS = "the user lacks the right to a key; grant ~{NAMESPACE:QUEUE:* and ~NAMESPACE:queues with ACL SETUSER"


_FULL = "the server is full (at its maxmemory); consumers go on and make room, or raise it, as this says: "


_UNNAMED = "the user lacks a right, which `doctor` names; grant it with ACL SETUSER"  # so Redis 7.0 refuses in scripts


_UNTRUSTED = "its certificate was refused; check the host's name, the dates, and ssl_ca_certs in the URL"


_HINTS = {
    "rediss:": " (redis:// without TLS; ssl_certfile and ssl_keyfile if it wants a client certificate)",
    "redis:": " (rediss:// for TLS)",
}


_REPLIES: tuple[tuple[str, type[SequencerError], str], ...] = (
    ("OOM", QueueFull, _FULL),
    ("command not allowed when used memory", QueueFull, _FULL),
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
    ("can't run this command", ServerNotUsable, _UNNAMED),
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
    ("GENERATION ", ServerUnavailable, "others are changing where this queue's messages lie; try again"),
    ("CLOCK of the shard", DataError, "others wrote the clock of a shard; `doctor --repair` sets it right"),
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


def is_stale(reply: object) -> bool:
    """Whether this is the answer to a call that brought another generation than its shard has: nothing was done."""
    return isinstance(reply, redis.ResponseError) and str(reply).startswith("GENERATION ")


def unrefused(answers: list[Any]) -> list[Any]:
    """The answers, where none of them is an error. Raises the first that is one."""
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


def translate(error: BaseException, name: str) -> SequencerError:
    """Our error for a driver's; the original stays as its cause."""
    text = str(error)
    for words, kind, advice in _REPLIES:
        if words in text or isinstance(error, _CLASSES.get(words, ())):
            more = doctor_of(name) if kind is QueueFull else f" ({text[:200]})"
            return kind(f"server {name}: {advice}{more}")
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
