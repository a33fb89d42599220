"""The command line. A command reads its arguments, calls the library with the same words, and renders the answer.

Not here: what a command does (`sequencer`), supervising processes (`processes`).
The rule: commands of one subject share a file; what they do can be done from Python with the same words.
"""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the command line; returns the exit status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - stays open to the end
    _hide_password(sys.argv)
    from .main import run

    return run()


def _hide_password(argv: list[str]) -> None:
    """Start again without a password among the arguments, where `ps` shows it to every user of the machine."""
    for i, word in enumerate(argv):
        name, is_joined, value = word.partition("=")
        if name != "--redis":
            continue
        if not is_joined and i + 1 < len(argv):
            value = argv[i + 1]
        has_password = "@" in value or "password=" in value.lower()
        if has_password:
            words = [*argv[:i], *argv[i + (1 if is_joined else 2) :]]
            os.environ["SEQUENCER_REDIS"] = value
            os.execv(
                sys.executable,
                [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - len(argv) + 1], *words[1:]],
            )
