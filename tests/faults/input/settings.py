"""Checks of what configures: options, policies, URLs with passwords, the environment and pyproject.toml."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from sequencer.errors import ConfigurationError, ServerError
from sequencer.net.blocking import BlockingNet
from sequencer.net.endpoint import Endpoint, redact
from sequencer.processes.handlers.apps import app_from_project
from sequencer.server import start_embedded
from sequencer.settings.error_names import error_names
from sequencer.settings.options import ClaimLimits, ConsumerOptions, QueueOptions
from sequencer.settings.policy import Policy, read_policy

from .explore import Target, Wrong
from .values import REFUSED, is_text

PIECE = 3
"""So many characters of a password in a text are more than chance."""


def check_options(given: tuple[Any, Mapping[str, Any]]) -> str | None:
    """Options are refused with ConfigurationError, and a policy comes back from what the server keeps."""
    kind, values = given
    with suppress(ConfigurationError):
        made = kind(**values)
        if isinstance(made, Policy) and Policy(**read_policy(made.stored())) != made:
            about = [name for name, value in read_policy(made.stored()).items() if value != getattr(made, name)]
            is_rounded = all(abs(read_policy(made.stored())[name] - getattr(made, name)) <= 1e-6 for name in about)
            if not is_rounded:
                raise Wrong("a policy does not come back", repr(made.stored()))
        return None
    return REFUSED


def _option_inputs() -> Any:
    from hypothesis import strategies as st

    from .strategies import anything, texts

    def of(kind: Any, **more: Any) -> Any:
        names = st.sampled_from([field.name for field in fields(kind)])
        return st.dictionaries(names, anything, max_size=3).map(lambda values: (kind, {**more, **values}))

    names = st.tuples(st.just(partial(error_names, "park_on")), anything.map(lambda value: {"errors": value}))
    queue = of(QueueOptions, queue="q")
    return st.one_of(queue, of(Policy), of(ConsumerOptions), of(ClaimLimits), names, texts.map(_as_queue))


def _as_queue(name: str) -> tuple[Any, Mapping[str, Any]]:
    return QueueOptions, {"queue": name}


FIXED = (
    "server URL must begin with redis://, rediss://, unix:// or valkey:// can't be read; check port, path and options "
    "names no database: its path must be a number, as in host/0"
)
"""What an error says of any URL."""


def secret_pieces(password: str, url: str) -> list[str]:
    """Parts of a password that nothing else in the URL explains: what no text may hold."""
    around = (url.replace(password, "", 1) + FIXED).lower()
    pieces = re.split(r"[/?#@:\s\[\]]", password)
    return [piece for piece in pieces if len(piece) >= PIECE and piece.lower() not in around]


def check_secret(given: tuple[str, str, str, str], shorten: Callable[[str], str] = redact) -> None:
    """Nothing shows a password, however badly it was put into the URL: not escaped, with any character."""
    scheme, user, password, place = given
    url = f"{scheme}://{user}:{password}@{place}"
    said = [shorten(url)]
    with mock.patch.dict(os.environ, {"SEQUENCER_REDIS": url} if "\x00" not in url and is_text(url) else {}):
        try:
            made = BlockingNet(url if "SEQUENCER_REDIS" not in os.environ else None, start_embedded)
            said += [made.name, repr(made.endpoint.name)]
        except ConfigurationError as error:
            said.append(str(error))
    for text in said:
        for piece in secret_pieces(password, url):
            if piece.lower() in text.lower():
                raise Wrong("a password is shown", f"{piece!r} in {text!r}")


def check_url(url: str) -> None:
    """A URL is refused with ConfigurationError, or gives an endpoint; connecting to nothing is our own error."""
    with suppress(ConfigurationError):
        endpoint = Endpoint.from_url(url)
        host = url.partition("://")[2]
        if host.startswith(("127.0.0.1:1?", "a..b", "aaaa")):
            with suppress(ServerError):
                endpoint.connect()
                raise Wrong("a connection to nothing")


def check_project(text: str) -> None:
    """`[tool.sequencer]` in a pyproject.toml of any content gives an app, none, or our own error."""
    with tempfile.TemporaryDirectory(prefix="sqi-") as name:
        Path(name, "pyproject.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
        with suppress(ConfigurationError):
            app = app_from_project(Path(name))
            if app is not None and not isinstance(app, str):
                raise Wrong("an app that is no text", repr(app))


def targets() -> list[Target]:
    """What configures a queue, and how a server is named."""
    from hypothesis import strategies as st

    from . import strategies as inputs

    lines = st.sampled_from(
        ["[tool.sequencer]", "app = 'a:b'", "app = 1", "[tool]", "tool = 1", "x", "[[tool]]", "\udcff"]
    )
    projects = st.lists(st.one_of(lines, st.text(st.characters(codec="utf-8"), max_size=5)), max_size=4)
    return [
        Target("options", _option_inputs(), check_options, 150),
        Target("passwords in URLs", inputs.secret_urls, check_secret, 150),
        Target("URLs", inputs.urls, check_url, 60),
        Target("pyproject.toml", projects.map("\n".join), check_project, 30),
    ]
