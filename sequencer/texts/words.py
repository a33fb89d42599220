"""How texts of others are shown: what could end a line or move others' text about is spelled out. Pure."""

from __future__ import annotations

import math
import re
import shlex
import signal
from collections.abc import Sequence
from datetime import UTC, datetime

ERROR_CHARACTERS = 500
"""Of an error's text in an event."""
LEDGER_CHARACTERS = 2000
"""Of a ledger in an event: with the rest of it, it fits into one write to a pipe."""
CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028-\u202e"  # C0, DEL and C1; line and paragraph separators; directions, embedded
    "\u061c\u200e\u200f\u2066-\u2069\ufeff"  # directions: marks and isolates; the byte order mark
    "\ud800-\udfff]"  # halves of a pair, which can't be encoded
)
"""Characters that end a line, move a terminal's cursor, or turn about what stands beside them."""


def plain(text: str) -> str:
    """The text with its control characters spelled out: nothing in it ends a line, or moves a terminal's cursor."""
    return CONTROL.sub(lambda found: _escaped(found[0]), text)


def named(group: Sequence[str]) -> str:
    """A group in a sentence, or on a command line of `explain` and others: its parts as words for a shell."""
    words = [quoted(part) for part in group]
    return " ".join(["--", *words] if any(part.startswith("-") for part in group) else words)


def quoted(word: str) -> str:
    """One word for a shell. Control characters are spelled out as in `$'a\\x0ab'`, which bash, zsh and ksh read. A word
    with a NUL, which no shell can carry, is only shown: a shell would read `$'a\\x00b'` as `a`.
    """
    if not CONTROL.search(word):
        return shlex.quote(word)
    if "\0" in word:
        return shlex.quote(plain(word))
    spelled = CONTROL.sub(lambda found: _bytes_of(found[0]), re.sub(r"['\\]", r"\\\g<0>", word))
    return f"$'{spelled}'"


def json_line(line: str) -> str:
    """The same JSON with control characters as `\\u0085`."""
    body = line.rstrip("\n")
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", body) + line[len(body) :]


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def _bytes_of(character: str) -> str:
    """The bytes of a character, as `$'...'` of a shell takes them."""
    data = character.encode("utf-8", "surrogateescape" if "\udc80" <= character <= "\udcff" else "replace")
    return "".join(f"\\x{byte:02x}" for byte in data)


def type_name(error: BaseException) -> str:
    """The class of an error, for people."""
    return plain(type(error).__name__)


def text_of(error: BaseException | str) -> str:
    """The error's own text, also of one whose `str` fails."""
    try:
        return str(error)
    except Exception as broken:
        return f"its text could not be read: {type(broken).__name__}"


def error_text(error: BaseException | str, characters: int = ERROR_CHARACTERS) -> str:
    """The error's own text in one line, cut."""
    text = plain(text_of(error)[: characters + 1])
    return text if len(text) <= characters else f"{text[:characters]}..."


def ending(returncode: int) -> str:
    """How a process ended, from its status as Popen has it: `signal SIGKILL`, `exit status 1`."""
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return f"signal {signal.Signals(-returncode).name}"
    except ValueError:  # those for real time have numbers only
        return f"signal {-returncode}"


def duration(seconds: float) -> str:
    """`250 ms`, `2.5 s`, `12 min`, `3 h 20 min`, `2 d 4 h`."""
    if not math.isfinite(seconds):
        return f"{seconds:g} s"
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 7200:
        return f"{whole // 60} min"
    if whole < 172_800:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def step_outcome(name: str, state: str, who: str, took_s: float, error: str) -> str:
    """`charge done by ann in 12 ms`, `mail left (ValueError: no address)`."""
    by, took = f" by {who}" if who else "", f" in {1000 * took_s:.0f} ms" if took_s else ""
    return f"{name} {state}{by}{took}{f' ({error})' if error else ''}"


def of_limit(attempt: int, limit: int) -> str:
    """`2 of 5`; `3 (the limit is 2)` of one that is above it, as when the limit was lowered meanwhile."""
    return f"{attempt} of {limit}" if attempt <= limit else f"{attempt} (the limit is {limit})"


def numbers(first: int | None, last: int | None) -> str:
    """`number 6`, `numbers 6 to 8`; `a number` where it is unknown which."""
    if first is None:
        return "a number"
    return f"number {first}" if first == last else f"numbers {first} to {last}"


def many(count: int, noun: str) -> str:
    """`1 consumer`, `1,200 consumers`, `2 failed attempts`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("try") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def moment(at: float) -> str:
    """Seconds since 1970 for people; UTC."""
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # a clock that is far off
        return f"{at:g} s since 1970"
