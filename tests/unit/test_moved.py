"""The table of moves names every file of 0.4.0, and no path in it is out of date."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.support import moved

FILES = 451
DIGEST = "a9c947a2741734c8ff39dad5152e3fd1c2bd814841c0857dad216ac1d358fd35"
"""Of the old paths of commit 28fcf74 (`git ls-tree -r --name-only 28fcf74`): no row is dropped or added unseen."""
REPAIR = """
A file moved: after its commit run `.venv/bin/python -m tests.support.moved --write`, and read the difference.
If git finds nothing, write the new path into tests/moved.csv by hand; a deleted file gets `- reason`."""


def test_each_file_of_the_version_before_the_rooms_has_a_row() -> None:
    old = list(moved.read())
    assert old == sorted(set(old))
    assert (len(old), hashlib.sha256("\n".join(old).encode()).hexdigest()) == (FILES, DIGEST)


def test_the_new_paths_are_there_and_the_old_ones_are_not() -> None:
    found = moved.problems(moved.read(), moved.ROOT)
    assert not found, "\n".join(found) + REPAIR


def test_a_table_that_is_out_of_date_is_told(tmp_path: Path) -> None:
    for name in ("stayed.py", "came.py", "forgotten.py"):
        (tmp_path / name).touch()
    rows = {
        "stayed.py": "stayed.py",
        "went.py": "came.py stayed.py",
        "cut.py": "- nothing used it",
        "lost.py": "came.py nowhere.py",
        "forgotten.py": "came.py",
        "blank.py": "- ",
    }
    assert moved.problems(rows, tmp_path) == [
        "lost.py: its new path nowhere.py is gone",
        "blank.py: no new path; a deleted file is '- reason'",
        "forgotten.py: is there still",
    ]
