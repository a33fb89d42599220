"""The mutants' lists fit the code, and the script that runs them tells a killed one from one that lives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.listed import LISTS, ROOT, Mutant, read

KEYS_TEST = "tests/unit/test_keys.py::test_separators_inside_parts_do_not_confuse_groups"
FAULT = {"id": "k", "file": "sequencer/store/group.py", "old": 'text = ":".join([', "note": "groups share a key"}
KILLED = FAULT | {"new": 'text = "_".join([', "tests": [KEYS_TEST]}
LIVES = FAULT | {"id": "l", "new": 'text = ":".join([  # a comment\n        ', "tests": [KEYS_TEST]}


def test_each_listed_mutant_fits_the_code() -> None:
    assert {mutant.id: problem for mutant in read(LISTS) if (problem := mutant.problem(ROOT))} == {}


def _write(lists: Path, *entries: dict[str, Any]) -> Path:
    (lists / "some.json").write_text(json.dumps(entries))
    return lists


def _run(lists: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.mutants", "--lists", str(lists), *words]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)


@pytest.mark.slow
def test_the_script_tells_a_killed_mutant_from_one_that_lives(tmp_path: Path) -> None:
    before = (ROOT / "sequencer/store/group.py").read_bytes()
    both = _run(_write(tmp_path, KILLED, LIVES))
    assert both.stdout.splitlines() == [
        "k        killed     sequencer/store/group.py: groups share a key",
        "l        SURVIVED   sequencer/store/group.py: groups share a key",
        "1 of 2 killed",
    ], both.stderr
    assert both.returncode == 1
    one = _run(tmp_path, "k")
    assert one.returncode == 0, one.stdout + one.stderr
    assert (ROOT / "sequencer/store/group.py").read_bytes() == before


def test_a_mutant_that_does_not_fit_fails_the_script(tmp_path: Path) -> None:
    done = _run(_write(tmp_path, KILLED | {"old": "no such text"}))
    assert (done.returncode, done.stdout) == (
        1,
        "k        out of date: the old text occurs 0 times in sequencer/store/group.py\n",
    )


@pytest.mark.slow
def test_tests_that_are_red_without_a_mutant_kill_nothing(tmp_path: Path) -> None:
    done = _run(_write(tmp_path, KILLED | {"tests": [f"{KEYS_TEST}[of no such case]"]}))
    assert done.returncode == 1
    assert done.stdout.endswith("The tests are not green without a mutant.\n")


def test_a_mutant_whose_test_has_another_name_now_fails_the_script(tmp_path: Path) -> None:
    gone = "tests/unit/test_keys.py::test_that_is_not_there"
    done = _run(_write(tmp_path, KILLED | {"tests": [gone]}))
    assert (done.returncode, done.stdout) == (1, f"k        out of date: there is no test {gone}\n")


def test_a_mutant_that_is_the_same_program_is_only_listed(tmp_path: Path) -> None:
    done = _run(_write(tmp_path, FAULT | {"new": "", "same": "no one asks"}))
    assert (done.returncode, done.stdout) == (0, "k        same       sequencer/store/group.py: no one asks\n")


@pytest.mark.parametrize(
    ("entry", "word"),
    [
        (KILLED | {"same": "but it has tests"}, "one of"),
        (FAULT | {"new": ""}, "one of"),
        (KILLED | {"extra": 1}, "wanted"),
        (KILLED | {"tests": "tests/unit"}, "a list"),
        (KILLED | {"id": "l"}, "taken"),
    ],
)
def test_an_entry_of_another_shape_is_refused(tmp_path: Path, entry: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        read(_write(tmp_path, LIVES, entry))


def test_text_that_occurs_twice_is_out_of_date() -> None:
    mutant = Mutant("m", "sequencer/store/group.py", "same", "other", "", "some")
    with pytest.raises(ValueError, match="2 times"):
        mutant.applied("the same is the same")
