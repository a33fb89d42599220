"""The listed mutants: what each changes in which file, and which tests notice.

A list is a file `*.json` beside this one: an array of objects. Each has `id`, `file`, `old`, `new` and `note` (what the
change breaks), and one of these two:

- `tests`: node ids or paths of the tests that must turn red,
- `same`: the reason why nothing can notice the change. Such a mutant is listed and never run.

`old` must occur exactly once in the file. If it does not, the code has moved on and the list is out of date.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LISTS = Path(__file__).parent
FIELDS = {"id", "file", "old", "new", "note"}
ENDS = {"tests", "same"}


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    id: str
    file: str
    old: str
    new: str
    note: str
    listed_in: str
    """Name of the list without `.json`."""
    tests: tuple[str, ...] = ()
    same: str = ""

    def applied(self, text: str) -> str:
        """The file's text with the change. Raises ValueError if `old` does not occur exactly once."""
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"out of date: the old text occurs {count} times in {self.file}")
        return text.replace(self.old, self.new)

    def problem(self, root: Path) -> str | None:
        """Why this entry can't be used on the tree at `root`; None if it can."""
        if not (root / self.file).is_file():
            return f"out of date: there is no file {self.file}"
        for test in self.tests:
            place, *names = test.split("::")
            path = root / place
            if not path.exists() or not all(_defines(path.read_text(), name) for name in names):
                return f"out of date: there is no test {test}"
        try:
            self.applied((root / self.file).read_text())
        except ValueError as error:
            return str(error)
        return None


def _defines(text: str, name: str) -> bool:
    """Whether there is a test, or a class of tests, of this name; the parameters in brackets are not looked at."""
    word = re.escape(name.partition("[")[0])
    return re.search(rf"^ *(?:def|class) {word}\b", text, re.MULTILINE) is not None


def read(lists: Path) -> list[Mutant]:
    """All mutants of the lists in a folder. Raises ValueError for an entry of another shape or an id that is taken."""
    mutants: dict[str, Mutant] = {}
    for path in sorted(lists.glob("*.json")):
        for entry in json.loads(path.read_text()):
            mutant = _read_one(entry, path)
            if mutant.id in mutants:
                raise ValueError(f"{path.name}: the id {mutant.id} is taken")
            mutants[mutant.id] = mutant
    return list(mutants.values())


def _read_one(entry: dict[str, object], path: Path) -> Mutant:
    ends = entry.keys() & ENDS
    if entry.keys() - ENDS != FIELDS or len(ends) != 1 or not entry[ends.pop()]:
        raise ValueError(f"{path.name}: {entry.get('id')}: wanted {sorted(FIELDS)} and one of {sorted(ENDS)}")
    texts = {name: str(entry[name]) for name in FIELDS}
    tests = entry.get("tests", ())
    if not isinstance(tests, list | tuple) or not all(isinstance(test, str) for test in tests):
        raise ValueError(f"{path.name}: {texts['id']}: tests is a list of node ids or paths")
    return Mutant(**texts, listed_in=path.stem, tests=tuple(tests), same=str(entry.get("same", "")))
