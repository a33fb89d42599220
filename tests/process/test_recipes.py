"""The recipes of `docs/recipes`: a validator of its own kind reads each file, and its facts are those of the command.

A validator that accepts everything is none: each sees negative control too, one change away from the file.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # it has no types, and no stubs exist
import pytest
import yaml

from sequencer import Sequencer
from sequencer.testing import wait_until

from ..support.run_scene import PATIENCE_S
from .conftest import Cli, Work

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "docs" / "recipes"
PAGE, UNIT, RUN_UNIT, DOCKERFILE, MANIFEST = (
    (RECIPES / name).read_text(encoding="utf-8")
    for name in ("../deployment.md", "sequencer.service", "sequencer-run.service", "Dockerfile", "kubernetes.yaml")
)
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
SCRIPTS = Path(sysconfig.get_path("scripts"))
RESERVE_S = 10
"""Time between the end of the grace and the kill: consumers release, and the supervisor says its summary."""


def broken(text: str, old: str, new: str) -> str:
    """The file with one change, which must be one."""
    assert old in text
    return text.replace(old, new)


# -- systemd


def unit_complaints(text: str, directory: Path) -> str:
    """What systemd says of a unit; empty when it accepts it. The unit's paths are those of another machine."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not here, the unit is not validated: apt-get install systemd (Linux only)")
    path = directory / "sequencer.service"
    path.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={SCRIPTS / 'sequencer'}", text))
    done = subprocess.run(
        [program, "verify", "--man=no", "--recursive-errors=no", str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode != 0) == bool(done.stderr.strip()), done
    return done.stderr


@pytest.mark.parametrize("unit", [UNIT, RUN_UNIT])
def test_systemd_accepts_the_units(tmp_path: Path, unit: str) -> None:
    assert unit_complaints(unit, tmp_path) == ""


def test_systemd_refuses_a_broken_unit(tmp_path: Path) -> None:
    assert "ignoring" in unit_complaints(broken(UNIT, "KillMode=", "KilMode="), tmp_path).lower()


# -- Dockerfile


def dockerfile_complaints(text: str) -> str:
    """What hadolint says of a Dockerfile, style too; empty when it accepts it."""
    done = subprocess.run(
        [SCRIPTS / "hadolint", "--no-color", "-"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode != 0) == bool((done.stdout + done.stderr).strip()), done
    return done.stdout + done.stderr


def test_hadolint_accepts_the_dockerfile_and_the_one_of_the_page() -> None:
    assert dockerfile_complaints(DOCKERFILE) == ""
    (example,) = (text for kind, text in BLOCKS if kind == "dockerfile")
    assert dockerfile_complaints(example) == ""


def test_hadolint_refuses_a_broken_dockerfile() -> None:
    assert "DL3002" in dockerfile_complaints(broken(DOCKERFILE, "USER 10001:10001", "USER root"))


def test_the_dockerfile_copies_what_the_wheel_is_built_from() -> None:
    build = DOCKERFILE.split("\nFROM ")[1]
    copied = {word for line in re.findall(r"(?m)^COPY (.+)$", build) for word in line.split()[:-1]}
    assert all((ROOT / name).exists() for name in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    needed |= {folder.split("/")[0] for folder in project["tool"]["setuptools"]["package-dir"].values()}
    assert copied == needed


# -- Kubernetes


def manifest_complaints(text: str) -> str:
    """What Kubernetes' own schemas say of a manifest; empty when they accept it."""
    try:
        kubernetes_validate.validate(yaml.safe_load(text), kubernetes_validate.latest_version(), strict=True)
    except kubernetes_validate.ValidationError as error:
        return str(error.message)
    return ""


def test_kubernetes_accepts_the_manifest() -> None:
    assert manifest_complaints(MANIFEST) == ""
    spec = yaml.safe_load(MANIFEST)["spec"]
    # Schemas can't tell this: the API refuses a selector that its own pods do not match.
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]


def test_kubernetes_refuses_a_broken_manifest() -> None:
    wrong = broken(MANIFEST, "terminationGracePeriodSeconds", "terminationGraceSeconds")
    assert "'terminationGraceSeconds' was unexpected" in manifest_complaints(wrong)


# -- facts that no validator knows


def unit_value(name: str) -> str:
    (value,) = re.findall(rf"(?m)^{name}=(.*)$", UNIT)
    return str(value)


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = yaml.safe_load(MANIFEST)["spec"]["template"]["spec"]
    return spec


def docker_words(instruction: str) -> list[str]:
    (words,) = re.findall(rf"(?m)^{instruction} (\[.*\])$", DOCKERFILE)
    return list(json.loads(words))


def commands() -> list[list[str]]:
    """The words behind `sequencer` in each recipe."""
    (in_background,) = re.findall(r"(?m)^nohup sequencer (.*?) >>", PAGE)
    assert docker_words("ENTRYPOINT") == ["sequencer"]
    container = pod()["containers"][0]
    return [shlex.split(unit_value("ExecStart"))[1:], docker_words("CMD"), container["args"], in_background.split()]


def test_the_command_of_all_recipes_runs_and_stops(cli: Cli, work: Work) -> None:
    """It is one command: with the queue `jobs` and the handlers `shop:seq`, which the tests have too."""
    words, *others = commands()
    assert others == [words] * 3
    work.add("a", {})
    running = cli.start(*words, SEQUENCER_LOG_FORMAT="json")
    wait_until(lambda: work.events("handled") or running.process.poll() is not None, PATIENCE_S)
    running.signal(signal.SIGTERM)
    assert running.ended() == 0, running.stderr
    assert work.events("handled", "a-0")


def test_the_unit_and_the_file_of_many_queues_belong_together(cli: Cli, work: Work, tmp_path: Path) -> None:
    """The words of both units are the same but for what `run` is; the file is right, and its queue is worked on."""
    only = {line for line in RUN_UNIT.splitlines() if line not in UNIT.splitlines() and not line.startswith("#")}
    names = "Description Type Environment RuntimeDirectory RuntimeDirectoryMode ExecStart ExecReload"
    assert {line.partition("=")[0] for line in only} == set(names.split())
    program, command, file = re.findall(r"(?m)^ExecStart=(\S+) (\S+) (\S+)$", RUN_UNIT)[0]
    assert (Path(program).name, command, Path(file).name) == ("sequencer", "run", "sequencer.toml")
    (tmp_path / "sequencer.toml").write_text((RECIPES / "sequencer.toml").read_text())
    cli.environment["SEQUENCER_HOME"] = str(tmp_path / "home")
    checked = cli.run("run", "--check")
    assert (checked.returncode, checked.stderr) == (0, "")
    work.add("a", {})
    running = cli.start(command, Path(file).name)
    work.wait_handled("a-0")
    running.signal(signal.SIGTERM)
    assert running.ended() == 0, running.stderr
    grace_s = float(tomllib.loads((RECIPES / "sequencer.toml").read_text())["queues"]["jobs"]["grace"].rstrip("s"))
    assert unit_value("TimeoutStopSec") in RUN_UNIT
    assert float(unit_value("TimeoutStopSec")) >= grace_s + RESERVE_S


def test_the_kill_comes_after_the_grace() -> None:
    words = commands()[0]
    grace_s = float(words[words.index("--grace") + 1])
    kills = {
        "systemd": [unit_value("TimeoutStopSec")],
        "docker run": re.findall(r"--stop-timeout (\d+)", PAGE),
        "compose": re.findall(r"stop_grace_period: (\d+)s", PAGE),
        "kubernetes": [pod()["terminationGracePeriodSeconds"]],
    }
    for name, kill_s in kills.items():
        assert kill_s, name
        assert all(float(one) >= grace_s + RESERVE_S for one in kill_s), name


def test_systemd_starts_again_after_all_but_wrong_use(cli: Cli) -> None:
    assert unit_value("Restart") == "on-failure"
    wrong = cli.run("consume", "jobs", "--app", "no_such_module:seq")
    assert str(wrong.returncode) == unit_value("RestartPreventExitStatus")
    lost = cli.run("consume", "jobs", "--app", "shop:seq", "--redis", "redis://127.0.0.1:1")
    assert lost.returncode not in (0, wrong.returncode), lost


def test_the_probe_tells_whether_the_server_and_the_queue_can_be_reached(cli: Cli, seq: Sequencer) -> None:
    program, *words = pod()["containers"][0]["readinessProbe"]["exec"]["command"]
    assert program == "sequencer"
    assert cli.run(*words).returncode == 2, "nobody made the queue yet"
    seq.connect()  # as a consumer does when it starts
    assert cli.run(*words).returncode == 0, "also before the first message"
    lost = cli.run(*words, SEQUENCER_REDIS="redis://127.0.0.1:1")
    assert lost.returncode != 0
    assert "can't be reached" in lost.stderr


def test_the_page_shows_what_is_in_the_files() -> None:
    shown = [(kind, text) for kind, text in BLOCKS if kind in ("ini", "yaml")]
    assert len(shown) >= 6
    for kind, text in shown:
        assert text in {"ini": UNIT + RUN_UNIT, "yaml": MANIFEST}[kind]
    assert {kind for kind, _ in BLOCKS} == {"ini", "yaml", "dockerfile", "text"}
