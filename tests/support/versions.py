"""Other versions of the package: wheels of old commits, unpacked, and processes that run under each.

A wheel is pure Python, so unpacked and put before all other packages it is that version: nothing is installed, and its
dependencies are those of the environment. The programs are `version_process` and `version_load`.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
COMMITS = {
    "0.4.0": "4969a6f39b94e6ad827614ad4452d8df7924e762",
    "0.5.0": "28fcf74ebd755171efe445857044d742ab798f92",
}
"""Version -> the commit whose wheel it is: of those that know no registry."""
LATER = {"0.7.0": "a4962cf04c747f59bd1465786e01ec07ed715232"}
"""The last one that knows protocol 1; 0.6.0 reads a registry as it does."""
BUILDER = "setuptools>=77"
"""As these commits ask for."""
PATIENCE_S = 30.0


class Version(NamedTuple):
    """One version of the package."""

    name: str
    path: Path | None = None
    """Where its wheel is unpacked; None for the package of this tree."""
    twin: str = ""
    """How it is broken on purpose, if it is (see version_client)."""

    def start(self, program: str, environment: Mapping[str, str], *words: object) -> subprocess.Popen[str]:
        """Start a program of this folder under this version."""
        places = [str(place) for place in (self.path, ROOT) if place]
        return subprocess.Popen(
            [sys.executable, "-P", "-m", f"tests.support.{program}", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **environment,
                "PYTHONPATH": os.pathsep.join(places),
                "VERSION_EXPECTED": self.name,
                "VERSION_TWIN": self.twin,
            },
        )

    def run(self, program: str, environment: Mapping[str, str], *words: object, status: int = 0) -> Any:
        """Run it to its end; what it printed, as JSON. An end with another status is an AssertionError."""
        with self.start(program, environment, *words) as process:
            try:
                out, err = process.communicate(timeout=PATIENCE_S)
            finally:
                process.kill()
        assert process.returncode == status, f"{self.name} {words} ended with {process.returncode}: {err}"
        return json.loads(out)


def unpacked(folder: Path, names: Iterable[str] = {**COMMITS, **LATER}, root: Path = ROOT) -> dict[str, Version]:
    """The wheels of these versions, built side by side and unpacked in `folder`; once for all who share it.

    Raises AssertionError, with what to do, where the repository does not have a commit.
    """
    folder.mkdir(exist_ok=True)
    wanted = {name: folder / name for name in names}
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers of this test run wait for the one that builds
        missing = [name for name, path in wanted.items() if not path.exists()]
        for name in missing:
            _check_out(name, folder, root)
        if missing:
            # One copy for all wheels: pip would install one for each, which takes longer than to build them.
            _finish(_start("-m", "pip", "install", "-q", "--no-deps", "-t", folder / "tools", BUILDER), BUILDER)
        building = {name: _build(name, folder) for name in missing}
        for name, process in building.items():
            _finish(process, f"the wheel of {name} from {(COMMITS | LATER)[name]}")
            (wheel,) = folder.glob(f"wheel-{name}/*.whl")
            with zipfile.ZipFile(wheel) as file:
                file.extractall(wanted[name])
    return {name: Version(name, path) for name, path in wanted.items()}


def _check_out(name: str, folder: Path, root: Path) -> None:
    archive, source, commit = folder / f"{name}.tar", folder / f"source-{name}", (COMMITS | LATER)[name]
    source.mkdir(exist_ok=True)
    words = ["git", "-C", str(root), "archive", "-o", str(archive), commit]
    found = subprocess.run(words, text=True, capture_output=True, check=False)
    assert found.returncode == 0, (
        f"the wheel of {name} is built from commit {commit}, which {root} does not have ({found.stderr.strip()}): this"
        " test needs the whole history, so clone without --depth, or run git fetch --unshallow"
    )
    subprocess.run(["tar", "-xf", archive, "-C", source], check=True)


def _build(name: str, folder: Path) -> subprocess.Popen[str]:
    code = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    (folder / f"wheel-{name}").mkdir(exist_ok=True)
    return _start("-P", "-c", code, folder / f"wheel-{name}", cwd=folder / f"source-{name}", path=folder / "tools")


def _start(*words: str | Path, cwd: Path | None = None, path: Path | str = "") -> subprocess.Popen[str]:
    """Start Python; what it says, on both outputs, is one text."""
    environment = {**os.environ, "PYTHONPATH": str(path)}
    return subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env=environment,
    )


def _finish(process: subprocess.Popen[str], what: str) -> None:
    said, _ = process.communicate()
    assert process.returncode == 0, f"could not get {what}: {said}"
