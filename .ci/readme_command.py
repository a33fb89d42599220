"""Prints the set-up command of README.md or CONTRIBUTING.md that holds a word: what people paste is what CI runs."""

import sys
from pathlib import Path

word = sys.argv[1]
root = Path(__file__).parent.parent
lines = [line.strip() for name in ("README.md", "CONTRIBUTING.md") for line in (root / name).read_text().splitlines()]
found = [line for line in lines if line.startswith("python3 -m venv") and word in line]
if len(found) != 1:
    sys.exit(f"there must be exactly one set-up command with {word!r}, found {found}")
print(found[0])
