"""Prints the README's set-up command that holds a word: what people paste is what the CI run does."""

import sys
from pathlib import Path

word = sys.argv[1]
lines = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8").splitlines()
found = [line.strip() for line in lines if line.strip().startswith("python3 -m venv") and word in line]
if len(found) != 1:
    sys.exit(f"README.md must hold exactly one set-up command with {word!r}, found {found}")
print(found[0])
