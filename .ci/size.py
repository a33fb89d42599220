"""Prints the size of the project; with --check, compares it with `size.json`, whose numbers may only go down.

Lines are those of `wc -l`; tokens are Python's, without comments, docstrings and blank lines.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMITS = Path(__file__).with_suffix(".json")
SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}


def files(ending: str, *folders: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines() if name.endswith(ending) and (ROOT / name).exists()]


def lines(ending: str, *folders: str) -> int:
    return sum(path.read_bytes().count(b"\n") for path in files(ending, *folders))


def tokens(path: Path) -> int:
    """A string that stands alone on its line is a docstring, or says something of the name above it."""
    count, begins = 0, True
    found = list(tokenize.generate_tokens(io.StringIO(path.read_text()).readline))
    for one, after in zip(found, [*found[1:], None], strict=True):
        is_text = one.type == tokenize.STRING and begins and after is not None and after.type == tokenize.NEWLINE
        if one.type not in SKIPPED and one.type != tokenize.ENDMARKER and not is_text:
            count += 1
        begins = one.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL) or (
            begins and one.type in SKIPPED
        )
    return count


def figures() -> dict[str, int]:
    product = ("sequencer", "cli")
    return {
        "product lines": lines(".py", *product),
        "product tokens": sum(tokens(path) for path in files(".py", *product)),
        "lua lines": lines(".lua", "sequencer"),
        "test lines": lines(".py", "tests"),
        "benchmark lines": lines(".py", "benchmarks"),
        "wheel lines": lines(".py", *product) + lines(".lua", "sequencer"),
        "readme lines": lines("README.md", "README.md"),
        "docs lines": lines(".md", "docs"),
    }


def main() -> int:
    found = figures()
    limits = json.loads(LIMITS.read_text()) if LIMITS.exists() else {}
    for name, value in found.items():
        limit = limits.get(name)
        print(f"{name:16} {value:8,}" + (f"  at most {limit:,}" if limit else ""))
    over = [name for name, limit in limits.items() if found[name] > limit]
    if over and "--check" in sys.argv:
        print(f"too big: {', '.join(over)}. Remove something, or raise the number in {LIMITS.name} and say why.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
