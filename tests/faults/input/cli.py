"""Command lines of any content, and NDJSON of any content on standard input: an exit code from 0 to 5, an error in one
sentence, never a traceback.

They run in this process, through the same function as the console script.
"""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest import mock

import orjson
import typer.main
from hypothesis import strategies as st

from . import strategies as inputs
from .bench import NAMESPACE, QUEUE, Bench
from .records import DEAD, GROUP, fill

CODES = range(6)
PROCESSES = {"consume", "run", "watch", "demo", "server start", "server stop", "server status"}
"""Commands that start processes or servers: left out."""
ENDLESS = {"--watch", "--rate", "--help"}
"""Options that are left out: they may take for ever, or say nothing."""


@dataclass(frozen=True)
class Line:
    """One command line with its standard input and environment."""

    words: tuple[str, ...]
    stdin: bytes = b""
    variables: tuple[tuple[str, str], ...] = ()
    """SEQUENCER_* variables and their values."""


def command_line(module: str) -> Any:
    """A module of the command line: the layer above, which the fault test uses as its users do and does not build
    on.
    """
    return importlib.import_module(f"sequencer.cli.{module}")


def run_here(line: Line, url: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command line in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors=how) for how in ("strict", "backslashreplace"))
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = [logging.NullHandler()]  # so that `--log-level` finds logging set up, and leaves it alone
    stdin = io.TextIOWrapper(io.BytesIO(line.stdin))
    environment = mock.patch.dict(os.environ, {**dict(line.variables), "SEQUENCER_REDIS": url})
    try:
        with environment, redirect_stdout(out), redirect_stderr(err), mock.patch.object(sys, "stdin", stdin):
            with mock.patch.object(sys, "argv", ["sequencer", *line.words]):
                code: int = command_line("main").run()
            for stream in (out, err):
                stream.flush()
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    said, told = (stream.detach().getvalue().decode("utf-8", "replace") for stream in (out, err))
    return code, said, told


def judge(code: int, out: str, err: str) -> None:
    """A code from 0 to 5, no traceback, an error in one line, and nothing that moves a terminal's cursor."""
    assert "Traceback (most recent call last)" not in out + err, err
    assert code in CODES, err
    assert err.strip() or "Usage: " in out or code not in (2, 3), "an error without a word"
    errors = [text for text in err.splitlines() if text.startswith("error: ")]
    assert len(errors) <= 1, err
    assert not errors or err.rstrip("\n").endswith(errors[0]), "an error of more than one line"
    assert not [char for char in out + err if ord(char) < 32 and char not in "\n\t"], repr(out + err)


def check_line(line: Line, bench: Bench) -> bool:
    """A command line in this process, on a queue with pending, failed and dead messages; whether it was refused."""
    fill(bench, {})
    code, out, err = run_here(line, bench.url)
    judge(code, out, err)
    assert bench.audit() == [], "a command leaves the data broken"
    return code != 0


# -- inputs -----------------------------------------------------------------------------------------------------------


def _words() -> Any:
    """Any word that a shell can pass: no NUL, and bytes that are not UTF-8 come as surrogates."""
    odd = [*("", "-", "--", "-1", "0", "1e999", "nan", "inf", "9" * 5000, "1" * 30, "é", "\udcff", "a" * 300, "\n")]
    odd += ["\x1b[31m"]
    odd += [GROUP, DEAD, "m1", "d2", "a,b", ",", "2030-01-31T09:00:00+01:00", "2030-01-31", "true", "park", "skip", "*"]
    chars = st.characters(codec="utf-8", exclude_characters="\x00")
    return st.one_of(st.sampled_from(odd), st.integers().map(str), st.floats().map(str), st.text(chars, max_size=6))


def ndjson() -> Any:
    """Lines for `append`: good ones, JSON of other kinds, and rubbish."""
    values = st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.text(max_size=5)),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
        max_leaves=6,
    )
    names = st.sampled_from(["group", "body", "id", "score", "headers", "delay", "at", "x"])
    items = st.dictionaries(names, values, max_size=6).map(orjson.dumps)
    good = st.sampled_from([b'{"group":["g"],"body":1,"id":"m1","score":1}', b'{"group":"h","body":{}}'])
    lines = st.lists(st.one_of(good, items, values.map(orjson.dumps), inputs.json_bytes), max_size=4)
    return st.tuples(lines, st.sampled_from([b"\n", b"\r\n", b"\n\n", b""])).map(lambda pair: pair[1].join(pair[0]))


def lines() -> Any:
    """A command, its queue and group, some of its options, or words in any order."""
    words = _words()
    named = {str(option.envvar) for _, command in all_commands() for option in command.params if option.envvar}
    variable = st.tuples(st.sampled_from(sorted(named)), words)
    variables = st.one_of(st.just([]), st.lists(variable, max_size=2))
    files = st.sampled_from(["-", "/dev/null/x", ".", "none", "a" * 300, "\udcff", ""])

    commands = dict(all_commands())

    def of(name: str) -> Any:
        known = [one for one in commands[name].params if not ENDLESS & {*one.opts}]
        arguments = [one.name for one in known if one.param_type_name == "argument"]
        options = st.lists(st.sampled_from([one for one in known if one.param_type_name == "option"]), max_size=3)
        values = st.lists(words, min_size=3, max_size=3)
        queue: st.SearchStrategy[Any] = st.one_of(st.just([QUEUE]), words.map(lambda word: [word]), st.just([]))
        rest: st.SearchStrategy[Any] = st.just([])
        if "group" in arguments:
            rest = st.one_of(st.just([GROUP]), st.lists(words, max_size=2))
        elif name == "append":
            rest = st.one_of(st.just([]), files.map(lambda file: [file]))

        def line(given: Any) -> Line:
            first, more, chosen, filled, stdin, variables = given
            placed = [_option(option, value) for option, value in zip(chosen, filled, strict=False)]
            return Line((*name.split(), *first, *more, *placed, "--namespace", NAMESPACE), stdin, tuple(variables))

        return st.tuples(queue, rest, options, values, ndjson(), variables).map(line)

    free = st.builds(lambda some: Line(tuple(some)), st.lists(st.one_of(st.sampled_from(sorted(commands)), words)))
    top = st.sampled_from([Line(("--log-level", "x", "info")), Line(("--help",)), Line(()), Line(("--version",))])
    return st.one_of(*[of(name) for name in commands], of("append"), of("append"), free, top, files.map(_file_line))


def _file_line(file: str) -> Line:
    return Line(("append", QUEUE, file, "--namespace", NAMESPACE))


def all_commands() -> Iterator[tuple[str, Any]]:
    """Every command that is registered and runs in this process."""

    def below(path: tuple[str, ...], command: Any) -> Iterator[tuple[str, Any]]:
        inner = getattr(command, "commands", {})
        for name, child in inner.items():
            yield from below((*path, name), child)
        if not inner and " ".join(path) not in PROCESSES:
            yield " ".join(path), command

    command_line("main").import_commands()
    return below((), typer.main.get_command(command_line("app").app))


def _option(option: Any, value: str) -> str:
    name = option.opts[0]
    if name == "--redis":
        return f"{name}=redis://127.0.0.1:1/{value}"
    return name if option.is_flag else f"{name}={value}"
