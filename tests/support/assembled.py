"""Writes each script with its parts into a folder, for luacheck: python -m tests.support.assembled DIR."""

from __future__ import annotations

import sys
from pathlib import Path

from sequencer.calls.source import LUA, assembled


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in LUA.glob("*.lua"):
        # The line that asks for rights is made, and as long as the commands are many.
        lines = (
            f"{line} -- luacheck: no max line length" if line.startswith("if may then ") else line
            for line in assembled(path.stem).splitlines()
        )
        (folder / path.name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    write(Path(sys.argv[1]))
