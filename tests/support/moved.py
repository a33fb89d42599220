"""The table of moves: each module and test file of 0.4.0 and where its code is now.

`tests/moved.csv` has a row for each `.py`, `.lua`, `.pml` and `.mjs` file of commit 28fcf74, the last before the rooms.
Several new paths, with a blank between, mean that a file was split; `- reason` means that it was deleted.

`python -m tests.support.moved` lists the rows whose new path is gone, with what git says of it; `--write` puts that in.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "tests" / "moved.csv"
LIKENESS = "-M40%"
"""From this share of equal lines on, git calls a file moved: a module that came to its room was often reworded too."""


def read(table: Path = TABLE) -> dict[str, str]:
    """Each old path with its new ones, as the table has them."""
    with table.open(encoding="utf-8", newline="") as file:
        return {row["old"]: row["new"] for row in csv.DictReader(file)}


def paths(new: str) -> list[str]:
    """The new paths in one cell; none for a file that was deleted."""
    return [] if new.startswith("- ") else new.split()


def problems(rows: dict[str, str], root: Path) -> list[str]:
    """What the table says that the tree does not show."""
    everywhere = {path for new in rows.values() for path in paths(new)}
    gone = [
        f"{old}: its new path {path} is gone"
        for old, new in rows.items()
        for path in paths(new)
        if not (root / path).is_file()
    ]
    empty = [f"{old}: no new path; a deleted file is '- reason'" for old, new in rows.items() if not new.strip("- ")]
    back = [f"{old}: is there still" for old in rows if (root / old).is_file() and old not in everywhere]
    return gone + empty + back


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, text=True, capture_output=True, check=True)
    return done.stdout.splitlines()


def guess(path: str) -> str:
    """Where git says that a file went; empty if it says nothing."""
    for _ in range(10):  # moves of one file in a row
        if (ROOT / path).is_file():
            return path
        last = _git("log", "-1", "--format=%H", "--", path)
        changes = _git("show", LIKENESS, "--format=", "--name-status", last[0]) if last else []
        moved = [
            words[2] for words in (line.split("\t") for line in changes) if words[0][0] == "R" and words[1] == path
        ]
        if not moved:
            return ""
        path = moved[0]
    return ""


def main() -> int:
    """List the rows whose new path is gone. Exit code 1 if some row has no guess or was not written."""
    rows, left = read(), 0
    for old, new in rows.items():
        found = {path: path if (ROOT / path).is_file() else guess(path) for path in paths(new)}
        for path, better in found.items():
            if path != better:
                print(f"{old}: {path} -> {better or '?'}")
                left += not better
        rows[old] = " ".join(dict.fromkeys(better or path for path, better in found.items())) or new
    if "--write" in sys.argv:
        with TABLE.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([("old", "new"), *rows.items()])
    else:
        left = rows != read() or left
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
