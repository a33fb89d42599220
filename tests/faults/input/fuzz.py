"""Coverage-guided fuzzing (atheris, libFuzzer) of what parses and encodes, each target in a process of its own.

Two kinds of targets: bytes as they would stand in Redis, from a corpus of valid ones; and the checks of the other
modules, whose inputs hypothesis makes out of the fuzzer's bytes. What breaks is written to a file and the search goes
on, so that one problem does not hide the next.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sequencer.errors import SequencerError
from sequencer.store.envelope import encode_envelope
from sequencer.store.failure import decode_failure
from sequencer.store.group import decode_group, encode_group
from sequencer.store.record import decode_dead_letter, readable_message

from .explore import Findings, Several, Wrong

INSTALL = "pip install --group fuzz"
BOOT = """
import sys, atheris
with atheris.instrument_imports(include=["sequencer"]):
    from tests.faults.input.fuzz import fuzz
fuzz(atheris, sys.argv)
"""
"""What the process runs: the product must be imported inside, to be instrumented."""
MAX_LEN = 2048
GRACE_S = 60.0
"""For the start of the process, which instruments every module, and its end."""
_STATUS = re.compile(r"^#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+)", re.MULTILINE)
_FAILURE = b'{"member":"0000000000000001a","id":"a","type":"ValueError","message":"no","attempt":1,"at":1.5}'
_RECORD = b"0000000000000001" + b"00000" + encode_envelope({"a": [1, None]}, {"h": "x"}, 1000)
_DUE = b"0000000000000001" + b"0001D" + b"0000000000000002" + b"[1]"


def read_record(data: bytes) -> None:
    """A record shows itself as a message, whatever it holds."""
    member = (data[:16] + b"id").decode("utf-8", "surrogateescape")
    readable_message(member, "1.0", data, ("g",), 1, "q")


def read_letter(data: bytes) -> None:
    """A dead letter shows itself, or is refused with an error of our own."""
    name, _, kept = data.partition(b"\x00")
    decode_dead_letter(name.decode("utf-8", "surrogateescape"), kept, 1e6, "q")


def read_failure(data: bytes) -> None:
    """A failure shows itself, whatever it holds."""
    decode_failure(data)


def read_group(data: bytes) -> None:
    """A name in Redis is read as a group; and what was read is encoded to a name that reads the same."""
    parts = decode_group(data.decode("utf-8", "surrogateescape"))
    try:
        again = encode_group(list(parts))
    except SequencerError:
        return
    if decode_group(again) != parts:
        raise Wrong("a group does not come back", repr(parts))


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """What one fuzzing process did."""

    executions: int
    coverage: int
    """Edges of the program that were reached."""
    features: int
    problems: tuple[dict[str, str], ...]


BYTES: dict[str, tuple[Callable[[bytes], None], tuple[bytes, ...]]] = {
    "records": (read_record, (_RECORD, _DUE, b"", _RECORD[:30])),
    "letters": (read_letter, (b"0000000000000001g\na\x001.0\n" + _FAILURE + b"\n" + _RECORD, b"\x00\n\n")),
    "failures": (read_failure, (_FAILURE, b"{}", b"[]", b"null")),
    "group names": (read_group, (b"g", b"a:b", b"a%3Ab:1002", b"%25", b"%0A:%C3%A9")),
}
"""Targets on bytes, with their first corpus."""
MADE = ("groups", "ids", "scores", "times", "bodies", "passwords in URLs", "replies to a script")
"""Targets of the other modules."""


def made_checks() -> Mapping[str, Callable[[bytes], Any]]:
    """The checks of the other modules, each as a function of bytes."""
    import hypothesis

    from . import replies, values
    from . import settings as odd_settings

    found: dict[str, Callable[[bytes], Any]] = {}
    for target in [*values.targets(), *odd_settings.targets(), replies.script_target()]:
        if target.name in MADE:
            settings: Any = hypothesis.settings(
                database=None, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
            )
            given: Any = hypothesis.given(target.inputs)
            found[target.name] = settings(given(_shown(target.check))).hypothesis.fuzz_one_input
    return found


class _Broken(Exception):
    """Carries the input out to where the fuzzer's bytes went in."""

    def __init__(self, value: Any, error: Exception) -> None:
        self.value, self.error = value, error
        super().__init__()


def _shown(check: Callable[[Any], Any]) -> Callable[[Any], None]:
    def attempt(value: Any) -> None:
        try:
            check(value)
        except Exception as error:
            raise _Broken(value, error.errors[0] if isinstance(error, Several) else error) from None

    return attempt


def fuzz(atheris: Any, argv: list[str]) -> None:
    """Run one target until libFuzzer ends the process; arguments: target, file for problems, libFuzzer's own."""
    name, path = argv[1], Path(argv[2])
    check: Callable[[bytes], Any] = BYTES[name][0] if name in BYTES else made_checks()[name]
    findings = Findings()

    def attempt(data: bytes) -> None:
        try:
            check(data)
        except SequencerError:
            return
        except Exception as error:
            inner = error if isinstance(error, _Broken) else _Broken(data, error)
            count = len(findings.problems)
            findings.add(f"fuzzed {name}", inner.value, inner.error, "")
            if len(findings.problems) > count:
                key, text = list(findings.problems.items())[-1]
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": list(key), "text": text}) + "\n")

    atheris.Setup([argv[0], *argv[3:]], attempt)
    atheris.Fuzz()


def is_installed() -> bool:
    """Whether there is a fuzzer."""
    return importlib.util.find_spec("atheris") is not None


def run_fuzzer(name: str, seconds: float, runs: int, seed: int, findings: Findings) -> Fuzzed:
    """Fuzz one target in a process of its own for so long or so many executions; notes its problems."""
    with tempfile.TemporaryDirectory(prefix="sqz-") as directory:
        corpus, found = Path(directory, "corpus"), Path(directory, "found")
        corpus.mkdir()
        for number, data in enumerate(BYTES[name][1] if name in BYTES else ()):
            (corpus / str(number)).write_bytes(data)
        bounds = [f"-max_total_time={max(1, round(seconds))}", f"-runs={runs}", f"-seed={seed + 1}"]
        more = [f"-max_len={MAX_LEN}", "-timeout=10", "-rss_limit_mb=2048", f"-artifact_prefix={directory}/"]
        done = subprocess.run(
            [sys.executable, "-c", BOOT, name, str(found), *bounds, *more, str(corpus)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=seconds + GRACE_S,
            check=False,
        )
        lines = found.read_text(encoding="utf-8").splitlines() if found.exists() else []
    problems = tuple(json.loads(line) for line in lines)
    repeat = f"python -m tests.faults input --seed {seed}"
    for problem in problems:
        target, kind, place = problem["key"]
        findings.problems.setdefault((target, kind, place), problem["text"] + repeat)
    if done.returncode:
        tail = done.stderr[-300:]
        findings.problems[f"fuzzed {name}", "exit", str(done.returncode)] = (
            f"fuzzed {name}: the fuzzer ended with {done.returncode}: {tail}; repeat: {repeat}"
        )
    executions, coverage, features = (int(word) for word in (_STATUS.findall(done.stderr) or [("0", "0", "0")])[-1])
    findings.tried[f"fuzzed {name}"] = findings.tried.get(f"fuzzed {name}", 0) + executions
    return Fuzzed(executions, coverage, features, problems)
