"""Installs the peers, each by itself: an npm directory for one of Node, a virtual environment for one of Python.

It happens once: a file that is written last says that a directory is whole. Where Node, npm, or the network is missing,
the peer is left out with one sentence that says so.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from .systems import System

INSTALL_S = 300.0
DONE = "installed.json"
"""Written last, with the packages: another version, or a half, is installed again."""


class NotInstalled(Exception):
    """This peer can't be measured here; says why in one sentence."""


def installed(system: System, cache: Path) -> bool:
    """Whether all its packages are there, in these versions."""
    if not system.packages:
        return True
    try:
        found = json.loads((cache / system.name / DONE).read_text())
    except (OSError, ValueError):
        return False
    return bool(found == list(system.packages)) and (system.kind != "node" or shutil.which("node") is not None)


def available(systems: Iterable[System], cache: Path, *, is_smoke: bool) -> tuple[list[System], list[str]]:
    """Those that are, or can be, installed, and why others are left out, which is said as well. A smoke installs
    nothing.
    """
    found, left_out = [], []
    for system in systems:
        try:
            if not installed(system, cache):
                if is_smoke:
                    raise NotInstalled(f"{system.name} is left out: a smoke installs nothing")
                install(system, cache)
            found.append(system)
        except NotInstalled as error:
            left_out.append(str(error))
            say(left_out[-1])
    return found, left_out


def say(text: str) -> None:
    print(text, file=sys.stderr)


def install(system: System, cache: Path) -> None:
    """Raises NotInstalled."""
    for program in ("node", "npm") if system.kind == "node" else ():
        if shutil.which(program) is None:
            raise NotInstalled(f"{system.name} is left out: {program} is not on PATH")
    say(f"installing {', '.join(system.packages)} into {cache / system.name}")
    directory = (cache / system.name).absolute()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(directory, ignore_errors=True)
        (_install_node if system.kind == "node" else _install_python)(system, directory)
        (directory / DONE).write_text(json.dumps(system.packages))
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(directory, ignore_errors=True)
        raise NotInstalled(f"{system.name} is left out: it could not be installed ({_why(error)})") from error


def _why(error: OSError | subprocess.SubprocessError) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = [line.strip() for line in (error.stderr or "").splitlines() if "error" in line.lower()]
        return (lines or [f"status {error.returncode}"])[-1][:200]
    if isinstance(error, subprocess.TimeoutExpired):
        return f"not done after {INSTALL_S:.0f} s"
    return str(error)


def _run(*words: str, cwd: Path) -> None:
    subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_S, check=True)


def _install_node(system: System, directory: Path) -> None:
    directory.mkdir()
    (directory / "package.json").write_text('{"private": true}\n')
    _run("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *system.packages, cwd=directory)


def _install_python(system: System, directory: Path) -> None:
    # Scripts of an environment name its place, so that it can't be moved: made in place, and unmade when it fails.
    _run(sys.executable, "-m", "venv", str(directory), cwd=Path(tempfile.gettempdir()))
    pip = (str(python(directory)), "-m", "pip", "--disable-pip-version-check", "install", "-q")
    _run(*pip, *system.packages, cwd=directory)


def node_version() -> str | None:
    """What `node --version` says."""
    program = shutil.which("node")
    if program is None:
        return None
    return subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=10, check=False
    ).stdout.strip()


def python(directory: Path) -> Path:
    """The interpreter of a peer's environment."""
    return directory / "bin" / "python"
