"""Canaries: a password and a payload, which may show in no output, log, error, command line or file but those meant.

Payloads are data: what prints messages (peek, get, dead show, consume without a handler) shows them on standard output.
Everything else shows neither. Groups, ids and the names of fields may show anywhere. Children get SEQUENCER_REDIS by
their environment, which their own user can read: that is not searched.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sequencer.client import Sequencer
from sequencer.errors import SequencerError
from sequencer.settings.options import ConsumerOptions
from sequencer.values.message import Message

from .commands import commands, processes
from .search import REPEAT, Search, logs
from .server import own_server


def prove_canary() -> Search:
    search = Search()
    with own_server((f"requirepass {search.password}",), port_option="port") as own:
        url = f"redis://:{search.password}@127.0.0.1:{own.port}"
        with logs() as lines:
            in_process(search, url)
        search.look("logs of this process", "\n".join(lines))
        commands(search, own, url)
        processes(search, own.directory, url)
        with suppress(UnicodeDecodeError):
            for path in own.directory.iterdir():
                if path.is_file() and path.name != "conf":
                    search.look(f"file {path.name}", path.read_text())
    return search


# -- in this process --------------------------------------------------------------------------------------------


def in_process(search: Search, url: str) -> None:
    """Errors of every kind, and what objects say of themselves."""
    with Sequencer("canary", url, max_attempts=1, on_failure="dead_letter") as seq:
        seq.append({"secret": search.payload}, group="g", id="a", score=1, headers={"token": search.payload})
        for name, wrong in _wrong_messages(seq, search.payload).items():
            _caught(search, name, wrong)
        seq.consume(_failing, until_empty=True)
        search.look("what objects say", " ".join(map(repr, (seq, seq.endpoint, seq.options, ConsumerOptions()))))
        search.look("explain", repr(seq.explain("g")))
        search.look("info", repr(seq.info()))
    place = url.rpartition("@")[2]
    for name, bad in {
        "wrong password": f"redis://:x{search.password}@{place}",
        "unknown user": f"redis://{search.password}:{search.password}@{place}",
        "no server": f"redis://:{search.password}@127.0.0.1:1",
        "no socket": f"unix://:{search.password}@/nowhere/s",
        "bad port": f"redis://:{search.password}@127.0.0.1:{search.password}",
        "unescaped": f"redis://:a/{search.password}@{place}",
        "bad option": f"redis://{place}?password={search.password}&color=red",
        "bad scheme": f"http://:{search.password}@{place}",
        "TLS to a plain path": f"rediss://:{search.password}@{place}?ssl_ca_certs=/nowhere/{search.password[:1]}",
    }.items():
        _caught(search, name, lambda bad=bad: _use(bad))  # type: ignore[misc]


def _use(url: str) -> None:
    with Sequencer("canary", url) as seq:
        seq.append(1, group="g")


def _failing(message: Message) -> None:
    raise ValueError("no such currency")


def _wrong_messages(seq: Sequencer, secret: str) -> dict[str, Callable[[], Any]]:
    body = {"secret": secret}
    return {
        "conflict": lambda: seq.append({"secret": secret, "n": 1}, group="g", id="a"),
        "body that is no JSON": lambda: seq.append({"secret": secret, "f": object()}, group="g"),
        "key that is no text": lambda: seq.append({"f": {1: secret}, "g": {2}}, group="g"),
        "NaN beside it": lambda: seq.append({"secret": secret, "f": float("nan")}, group="g"),
        "too large": lambda: seq.append(secret * 100_000, group="g"),
        "header that is no text": lambda: seq.append(1, group="g", headers={"a": secret, "b": 5}),  # type: ignore[dict-item]
        "headers that are no mapping": lambda: seq.append(1, group="g", headers=[secret]),  # type: ignore[arg-type]
        "no group": lambda: seq.append(body),
        "many, one wrong": lambda: seq.append_many([{"body": body, "group": "g"}, {"body": {1: body}, "gruop": "g"}]),
        "many, no mapping": lambda: seq.append_many([secret]),
        "many, no group": lambda: seq.append_many([{"body": body}]),
    }


def _caught(search: Search, name: str, run: Callable[[], Any]) -> None:
    try:
        run()
    except SequencerError as error:
        search.look_at_error(f"error of {name}", error)
    except Exception as error:
        search.look_at_error(f"error of {name}", error)
        search.problems.append(f"{name}: {type(error).__name__} is no error of ours; repeat: {REPEAT}")
