"""The log of our processes: text and JSON lines, what can't be written, and what a process set up itself."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sequencer.processes.logs
from sequencer.processes.logs import (
    MAX_WAITING_LINES,
    BackgroundHandler,
    JsonFormatter,
    StderrHandler,
    TextFormatter,
    background_writing,
)
from sequencer.store.failure import TRACEBACK_BYTES
from sequencer.testing import wait_until

RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


class Broken:
    """Neither JSON nor a repr."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def record(message: object = "hello", *args: Any, name: str = "sequencer", **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.WARNING, "", 0, message, args, None)
    vars(made).update(fields)
    return made


def raised(error: BaseException) -> logging.LogRecord:
    made = record("it failed")
    try:
        raise error
    except BaseException:
        made.exc_info = sys.exc_info()
    return made


def test_a_line_of_text() -> None:
    made = record("orders: server back: after 2.0 s")
    line = TextFormatter().format(made)
    assert re.fullmatch(
        rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d,\d{{3}} WARNING sequencer\[{os.getpid()}\] orders: server back: .*", line
    )
    assert "WARNING shop.db[" in TextFormatter().format(record(name="shop.db"))
    assert "WARNING sequencer[" in TextFormatter().format(record(name="sequencer.supervisor"))


def test_a_line_of_json() -> None:
    fields: dict[str, Any] = {"event": "group parked", "queue": "orders", "group": ["a", "b"], "attempt": 5}
    made = record("orders: x", **fields)
    line = json.loads(JsonFormatter().format(made))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", line.pop("time"))
    ours = {"level": "WARNING", "logger": "sequencer", "pid": os.getpid(), "message": "orders: x"}
    assert line == ours | fields
    foreign = json.loads(JsonFormatter().format(record("GET %s", "/", name="urllib3", status=200)))
    assert (foreign["logger"], foreign["message"], foreign["status"]) == ("urllib3", "GET /", 200)


def test_a_traceback_is_in_the_line_of_its_event() -> None:
    line = JsonFormatter().format(raised(ValueError("no \x1b[2J")))
    assert "\n" not in line
    assert "ValueError: no" in json.loads(line)["traceback"]
    text = TextFormatter().format(raised(ValueError("no \x1b[2J")))
    assert "\x1b" not in text
    assert text.splitlines()[-1] == "ValueError: no \\x1b[2J"


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_a_long_traceback_is_cut_in_its_middle(formatter: logging.Formatter) -> None:
    line = formatter.format(raised(ValueError("begins" + "x" * 20_000_000 + "ends")))
    assert len(line) < 4 * TRACEBACK_BYTES
    assert all(part in line for part in ("in raised", "ValueError: begins", "xends"))


@pytest.mark.parametrize("value", [Broken(), {1, 2}, 2**80, float("nan"), {(1, 2): "x"}, b"\xff", "\ud800", object])
def test_values_that_are_no_json_become_text(value: Any) -> None:
    line = JsonFormatter().format(record("x", value=value, kept=1))
    assert json.loads(line)["kept"] == 1
    assert "value" in json.loads(line)
    line.encode()


@given(st.text(max_size=30), st.text(max_size=30))
@example("\x85\u2028\u202e", "\x9b2J\u2066")
def test_no_control_character_is_written_raw(text: str, value: str) -> None:
    made = record("%s", text, value=value, group=[text, value])
    line = JsonFormatter().format(made)
    assert not RAW.search(line)
    assert "\n" not in line
    if not re.search("[\ud800-\udfff]", text + value):
        assert json.loads(line)["message"] == text
        assert json.loads(line)["group"] == [text, value]
    assert not RAW.search(TextFormatter().format(made))
    assert "\n" not in TextFormatter().format(made)
    assert not RAW.search(TextFormatter().format(record("%s", text, name="shop")).replace("\t", ""))


# -- where it goes ----------------------------------------------------------------------------------------------------


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StderrHandler]:
    """Writes to a file that stands for standard error."""
    made = StderrHandler()
    made.setFormatter(TextFormatter())
    with open(tmp_path / "err", "w") as stream:
        monkeypatch.setattr(sequencer.processes.logs, "sys", SimpleNamespace(stderr=stream))
        yield made


def said(tmp_path: Path) -> list[str]:
    lines = (tmp_path / "err").read_text().splitlines()
    return [line.partition("] ")[2] or line for line in lines]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EAGAIN])
def test_lines_that_can_not_be_written_are_counted_and_said_with_the_next(
    output: StderrHandler, tmp_path: Path, capfd: pytest.CaptureFixture[str], number: int
) -> None:
    """The first of them is torn: 30 bytes of it still fit."""
    real, room = os.write, [30]

    def write(fd: int, data: Any) -> int:
        if room:
            return real(fd, bytes(data)[: room.pop()])
        raise OSError(number, os.strerror(number))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", write)
        for _ in range(3):
            output.handle(record("lost"))
    output.handle(record("one"))
    output.handle(record("two"))
    torn, lost, *lines = said(tmp_path)
    assert len(torn) == 30
    assert (lost.startswith("lines lost: 3 "), os.strerror(number) in lost, lines) == (True, True, ["one", "two"])
    assert capfd.readouterr().err == "", "and no traceback of logging's own"


def test_without_a_standard_error_nothing_is_raised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    output = StderrHandler()
    output.setFormatter(TextFormatter())
    with open(tmp_path / "closed", "w") as closed:
        pass
    for stream in (None, closed):
        monkeypatch.setattr(sys, "stderr", stream)
        output.handle(record("lost"))
    with open(tmp_path / "err", "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        output.handle(record("there again"))
    assert "lines lost: 2 " in said(tmp_path)[0]


# -- setting it up --------------------------------------------------------------------------------------------------


def configured(*calls: tuple[str, str], code: str) -> list[str]:
    """What a fresh process writes to standard error with these settings."""
    setup = "\n".join(f"configure({level!r}, {form!r})" for level, form in calls)
    text = f"import logging\nfrom sequencer.processes.logs import configure\n{setup}\n{code}"
    done = subprocess.run([sys.executable, "-W", "error", "-c", text], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()


SAYS = """
for name in ("sequencer", "sequencer.supervisor", "shop"):
    for level in (10, 20, 30, 40):
        logging.getLogger(name).log(level, "%s %s", name, level)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("level", "usual", "supervisor"), [("DEBUG", 10, 10), ("WARNING", 30, 20), ("ERROR", 40, 40)])
def test_the_level_is_everybodys_and_the_supervisor_says_what_it_does(level: str, usual: int, supervisor: int) -> None:
    lines = [line.partition("] ")[2] for line in configured((level, "text"), code=SAYS)]
    for name, least in (("sequencer", usual), ("shop", usual), ("sequencer.supervisor", supervisor)):
        numbers = [number for number in (10, 20, 30, 40) if number >= least]
        assert [line for line in lines if line.startswith(f"{name} ")] == [f"{name} {number}" for number in numbers]


@pytest.mark.slow
def test_it_may_be_set_up_again_and_leaves_what_the_process_set_up() -> None:
    twice = configured(("ERROR", "json"), ("WARNING", "text"), code="logging.getLogger('shop').warning('x')")
    assert len(twice) == 1
    assert twice[0].endswith("x")
    own = "logging.basicConfig(format='own %(message)s')\nconfigure('INFO', 'json')\nlogging.warning('x')"
    assert configured(code=own) == ["own x"]


# -- in the background ------------------------------------------------------------------------------------------------


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger with our handler."""
    root, output = logging.getLogger(), StderrHandler()
    root.addHandler(output)
    yield root
    root.removeHandler(output)


@pytest.fixture
def err(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    with (tmp_path / "err").open("w") as stream:
        monkeypatch.setattr(sequencer.processes.logs, "sys", SimpleNamespace(stderr=stream))
        yield tmp_path / "err"


def test_a_standard_error_that_nobody_reads_does_not_hold_up_who_logs(
    root: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for size in (65536, 1):
        with suppress(BlockingIOError):
            while os.write(writer, b"-" * size):
                pass
    os.set_blocking(writer, True)
    with os.fdopen(writer, "w") as stderr:
        monkeypatch.setattr(sequencer.processes.logs, "sys", SimpleNamespace(stderr=stderr))
        monkeypatch.setattr(sequencer.processes.logs, "FLUSH_S", 0.05)
        with background_writing():
            (background,) = (one for one in root.handlers if isinstance(one, BackgroundHandler))
            root.warning("line %d", 0)
            wait_until(background.queue.empty, what="line 0, which is then being written")
            for number in range(1, MAX_WAITING_LINES + 20):
                root.warning("line %d", number)
        text = b""
        while b"line 999\n" not in text:
            text += os.read(reader, 65536)
        assert b"nobody reads standard error\nline 1\n" in text, "how many were lost comes with the next line"
        wait_until(lambda: not background.queue.unfinished_tasks, what="the last line, which would go to the next test")
    os.close(reader)


def test_what_is_written_in_the_background_is_there_at_the_end(root: logging.Logger, err: Path) -> None:
    with background_writing():
        for number in range(MAX_WAITING_LINES):
            root.warning("line %d", number)
    root.warning("last")
    assert err.read_text().splitlines() == [*(f"line {number}" for number in range(MAX_WAITING_LINES)), "last"]


def test_a_line_is_waited_for_but_not_again_where_nobody_reads(
    root: logging.Logger, err: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequencer.processes.logs, "FLUSH_S", 0.05)
    with background_writing(patience_s=20.0):
        for number in range(50):
            root.warning("line %d", number)
            assert err.read_text().endswith(f"line {number}\n"), "before what follows"
    held = threading.Event()
    monkeypatch.setattr(StderrHandler, "emit", lambda *_: held.wait())
    with background_writing(patience_s=0.3):
        began = time.monotonic()
        for number in range(50):
            root.warning("line %d", number)
        assert 0.3 <= time.monotonic() - began < 10.0, "once"
        held.set()


def test_the_copy_of_a_process_writes_its_lines_itself(root: logging.Logger, err: Path) -> None:
    with background_writing(patience_s=1.0):
        if not (pid := os.fork()):
            root.warning("from the copy")
            os._exit(0)
        os.waitpid(pid, 0)
    assert err.read_text() == "from the copy\n"
