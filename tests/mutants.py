"""Do the tests notice small faults? `python -m tests.mutants [FILE...]` breaks named functions, one spot at a time.

A condition is negated, or a statement dropped, in a copy of the tree, and the tests named for that file run. A change
after which all stay green has survived: it is printed. Some changes make no difference to anybody, so a few survivors
are allowed: below `KILLED` of a file's mutants the exit status is 1.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KILLED = 0.8
LIMIT_S = 120.0
TARGETS: dict[str, tuple[str, str]] = {
    "sequencer/drain/outcome.py": (
        "decide waits answered",
        "tests/unit/test_outcome.py tests/unit/test_admission.py",
    ),
    "sequencer/drain/protocol.py": (
        "_handle_group",
        "tests/unit/test_effects.py tests/unit/test_steps_memory.py tests/unit/test_steps_history.py "
        "tests/unit/test_drain.py",
    ),
    "sequencer/store/watermark.py": ("", "tests/unit/test_watermark.py"),
    "sequencer/web/access.py": ("", "tests/unit/test_web_access.py"),
    "sequencer/web/changes.py": ("", "tests/server/test_web_changes.py"),
    "sequencer/lua/ack.lua": ("", "tests/server/test_claim.py tests/server/test_late.py tests/server/test_history.py"),
    "sequencer/lua/renew.lua": ("", "tests/server/test_lease_renewal.py tests/server/test_model_agrees.py"),
}
"""File -> the functions that are broken (all of the file where none is named), and the tests that must notice."""
DROPPED = (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise)
Change = tuple[int, str]
"""Line number and the file's text after it."""


def changes(path: Path, names: str) -> Iterator[Change]:
    return lua_changes(path.read_text()) if path.suffix == ".lua" else python_changes(path.read_text(), names.split())


def python_changes(text: str, names: list[str]) -> Iterator[Change]:
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    functions = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef)]
    spots: set[ast.expr | ast.stmt] = set()
    for function in functions:
        for node in ast.walk(function) if not names or function.name in names else ():
            if isinstance(node, ast.If | ast.While | ast.IfExp):
                spots.add(node.test)
            elif isinstance(node, DROPPED) and not isinstance(getattr(node, "value", None), ast.Constant):
                spots.add(node)
    for spot in sorted(spots, key=lambda one: (one.lineno, one.col_offset)):
        begin = starts[spot.lineno - 1] + spot.col_offset
        end = starts[(spot.end_lineno or 0) - 1] + (spot.end_col_offset or 0)
        old = text.encode()[begin:end].decode()
        new = "pass" if isinstance(spot, DROPPED) else f"(not ({old}))"
        yield spot.lineno, text.encode()[:begin].decode() + new + text.encode()[end:].decode()


def lua_changes(text: str) -> Iterator[Change]:
    lines = text.splitlines(keepends=True)
    for at, line in enumerate(lines):
        new = re.sub(r"\b(if|elseif) (.+) then", r"\1 not (\2) then", line)
        new = "\n" if re.fullmatch(r"\s*p?call\(.*\)\n", line) else new
        if new != line and not line.lstrip().startswith("--"):
            yield at + 1, "".join([*lines[:at], new, *lines[at + 1 :]])


def is_green(tree: Path, tests: str) -> bool:
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-o", "timeout=30", *tests.split()]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ended = subprocess.run(words, cwd=tree, env=environment, capture_output=True, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0


def survivors(tree: Path, name: str) -> tuple[int, list[int]]:
    """How many mutants a file has, and the lines of those that no test noticed."""
    names, tests = TARGETS[name]
    path = tree / name
    if not is_green(tree, tests):
        sys.exit(f"{name}: its tests are not green without a mutant: {tests}")
    text, every, alive = path.read_text(), list(changes(path, names)), []
    for line, changed in every:
        path.write_text(changed)
        if is_green(tree, tests):
            alive.append(line)
    path.write_text(text)
    return len(every), alive


def main(wanted: list[str]) -> int:
    is_fine = True
    with tempfile.TemporaryDirectory(prefix="sqm-") as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(tree)], check=True)
        (tree / "sequencer/cli").symlink_to(tree / "cli")
        for name in wanted or TARGETS:
            count, alive = survivors(tree, name)
            print(f"{name}: {count - len(alive)} of {count} noticed; survived in lines {alive}", flush=True)
            is_fine &= count - len(alive) >= KILLED * count > 0
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
