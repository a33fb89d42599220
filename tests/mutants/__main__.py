"""Do the tests notice small faults? Run on demand, from the checkout's root:

    python -m tests.mutants                          all listed mutants
    python -m tests.mutants ap3 cl5                  these
    python -m tests.mutants --only cli/append.py    those of one file; or of one list: --only shell
    python -m tests.mutants --jobs 2                 two at a time

Each job works in a copy of the tree in a temporary folder; the checkout is never touched. The named tests run there
once as they are, and must be green. Then each mutant is put in, its tests run, and the file is put back.

A mutant is `killed` when one of its tests turns red; a test that hangs counts, and is said. It has `SURVIVED` when all
stay green. It is `out of date` when it does not fit the code any more, and it has `no verdict` when pytest could not
run the tests. The exit status is 0 when all are killed, otherwise 1. The lists are described in `listed.py`.
"""

from __future__ import annotations

import argparse
import compileall
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from .listed import LISTS, ROOT, Mutant, read

HANG_S = 60.0
"""A test that runs longer than this hangs."""
LIMIT_S = 300.0
"""All tests of one mutant together: for what stands still where no test's own limit reaches it."""
END_S = 20.0
"""How long an interrupted pytest may take to stop its servers."""
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "bench-results")
GREEN, RED = 0, 1
"""Exit statuses of pytest: all passed, some failed."""


@dataclass(frozen=True)
class Outcome:
    """What became of one run of pytest."""

    status: int | None
    """None: it had to be ended."""
    said: str

    @property
    def is_hang(self) -> bool:
        return self.status is None or "Failed: Timeout" in self.said

    def verdict(self) -> str:
        """What it says of a mutant."""
        if self.is_hang:
            return "killed (a test hung)"
        if self.status == GREEN:
            return "SURVIVED"
        return "killed" if self.status == RED else "no verdict"


class Copy:
    """A copy of the tree whose package is the one that its tests and their processes import."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        shutil.copytree(ROOT, self.root, ignore=LEFT_OUT)
        self._lay_out()
        # A change within the second that keeps a file's size is not seen by its time: so by its hash.
        for place in self._places.values():
            mode = py_compile.PycInvalidationMode.CHECKED_HASH
            compileall.compile_dir(self.root / place, quiet=2, invalidation_mode=mode)
        # A path comes before the finder of an editable install.
        own = {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | own
        self._check()

    def _lay_out(self) -> None:
        """Folders that install as part of the package stand in their places, as links."""
        settings = tomllib.loads((self.root / "pyproject.toml").read_text())
        self._places: dict[str, str] = settings["tool"]["setuptools"]["package-dir"]
        for package, place in self._places.items():
            path = self.root / package.replace(".", "/")
            if not path.exists():
                path.symlink_to(self.root / place)

    def _check(self) -> None:
        """Raises RuntimeError if a package is imported from anywhere else."""
        lines = "; ".join(f"import {package}; print({package}.__file__)" for package in self._places)
        command = [sys.executable, "-c", lines]
        said = subprocess.run(
            command, cwd=self.root.parent, env=self.environment, capture_output=True, text=True, check=False
        )
        places = [Path(line).resolve() for line in said.stdout.splitlines()]
        if len(places) != len(self._places) or not all(place.is_relative_to(self.root.resolve()) for place in places):
            raise RuntimeError(f"the copy is not what is imported: {places} {said.stderr}")

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """The mutant is in the copy. Raises ValueError if it is out of date."""
        path = self.root / mutant.file
        text = path.read_text()
        path.write_text(mutant.applied(text))
        try:
            yield
        finally:
            path.write_text(text)

    def run(self, tests: Sequence[str], *options: str, limit_s: float | None = LIMIT_S) -> Outcome:
        """Run tests in the copy."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-o", f"timeout={HANG_S}"]
        process = subprocess.Popen(
            [*command, *options, *tests],
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return Outcome(None, _end(process))
        except BaseException:
            _end(process)
            raise
        return Outcome(process.returncode, said)


def _end(process: subprocess.Popen[str]) -> str:
    """End a pytest that hangs: first so that its fixtures stop their servers."""
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=END_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def _try(mutant: Mutant, copies: SimpleQueue[Copy]) -> tuple[str, str]:
    """The verdict on a mutant, and what pytest said."""
    copy = copies.get()
    try:
        with copy.changed(mutant):
            outcome = copy.run(mutant.tests)
        return outcome.verdict(), outcome.said
    finally:
        copies.put(copy)


def try_all(mutants: list[Mutant], folder: Path, jobs: int) -> bool:
    """Run the mutants' tests, without and with them; True if all are killed."""
    copies: SimpleQueue[Copy] = SimpleQueue()
    first = Copy(folder / "0")
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    clean = first.run(tests, "-n", str(jobs), limit_s=None)
    if clean.status != GREEN:
        print(clean.said)
        print("The tests are not green without a mutant.")
        return False
    copies.put(first)
    for number in range(1, jobs):
        copies.put(Copy(folder / str(number)))
    killed = 0
    with ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(_try, mutant, copies): mutant for mutant in mutants}
        for done in as_completed(waiting):
            mutant, (verdict, said) = waiting[done], done.result()
            print(f"{mutant.id:8} {verdict:10} {mutant.file}: {mutant.note}", flush=True)
            killed += verdict.startswith("killed")
            if verdict == "no verdict":
                print(said)
    print(f"{killed} of {len(mutants)} killed")
    return killed == len(mutants)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Do the tests notice small faults?")
    parser.add_argument("ids", nargs="*", metavar="ID", help="mutants to try (all)")
    parser.add_argument("--only", metavar="FILE", help="only mutants of this file, or of the list of this name")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time (1)")
    parser.add_argument("--lists", type=Path, default=LISTS, help="the folder of the lists (tests/mutants)")
    given = parser.parse_args(words)
    mutants = read(given.lists)
    if unknown := set(given.ids) - {mutant.id for mutant in mutants}:
        parser.error(f"no such mutants: {', '.join(sorted(unknown))}")
    if given.ids:
        mutants = [mutant for mutant in mutants if mutant.id in given.ids]
    if given.only:
        mutants = [mutant for mutant in mutants if given.only in (mutant.file, mutant.listed_in)]
    if not mutants:
        parser.error("there is nothing to try")
    problems = {mutant.id: problem for mutant in mutants if (problem := mutant.problem(ROOT))}
    for mutant in mutants:
        if mutant.id in problems:
            print(f"{mutant.id:8} {problems[mutant.id]}")
        elif mutant.same:
            print(f"{mutant.id:8} same       {mutant.file}: {mutant.same}")
    wanted = [mutant for mutant in mutants if mutant.tests and mutant.id not in problems]
    if not wanted:
        return int(bool(problems))
    with tempfile.TemporaryDirectory(prefix="sqm-") as folder:
        are_killed = try_all(wanted, Path(folder), given.jobs)
    return int(bool(problems) or not are_killed)


if __name__ == "__main__":
    sys.exit(main())
