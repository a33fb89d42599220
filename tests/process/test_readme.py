"""Every README: its blocks run as they stand there, top to bottom, in an empty directory; what it names exists.

A block of kind `text` holds lines that the block before it printed, or all of them. The two set-up commands install the
project from the registries; the CI run (`.ci/run`) takes them from the README and runs them in a clean copy. Here it is
checked that it finds them.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection

import pytest
import typer

from benchmarks.__main__ import app as benchmarks
from sequencer.cli.app import app as command_line
from sequencer.cli.main import import_commands
from tests.faults.__main__ import PARTS

from ..support import readme_blocks
from ..support.readme_blocks import READMES, ROOT, Block, differences, prose, unsaid

RUN_ELSEWHERE = {"cli/recipes/README.md", "cli/recipes/applications/README.md"}
"""Their blocks are of systemd, Docker and Kubernetes, and of web frameworks: test_recipes.py and its sister."""

DRAWINGS = {"sequencer/README.md"}
"""A block of no kind is a drawing here."""

AGAIN = "python -m tests.support.readme_blocks writes it again"
INDENTED = re.compile(r"^    (\S.*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:[\w.*-]+/)*(?:[\w*-]+\.(?:py|lua|json|md|toml)|[\w.-]+/)")


def parts(name: str) -> list[list[Block]]:
    return readme_blocks.parts(READMES[name])


RUN_HERE = [
    (name, number)
    for name in READMES
    if name not in RUN_ELSEWHERE
    for number, part in enumerate(parts(name))
    if any(block.kind for block in part)
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "part"),
    [one if one[0] == "README.md" else pytest.param(*one, marks=pytest.mark.nightly) for one in RUN_HERE],
)
def test_every_block_runs(name: str, part: int) -> None:
    said = ""
    with readme_blocks.place() as directory:
        for block in parts(name)[part]:
            if not block.kind and name in DRAWINGS:
                continue
            if block.kind == "text" and block.is_whole:
                assert not differences(block.text, said), f"not what the block before it printed; {AGAIN}\n{said}"
            elif block.kind == "text":
                assert not unsaid(block.text, said), f"not said by the block before it\n{said}"
            else:
                said = readme_blocks.run(block, directory)


def test_a_block_that_shows_what_was_not_said_is_noticed() -> None:
    said = (
        "2026-11-23 14:14:51,203 WARNING sequencer[7] handled 5 in 0.66 s (17/s)\ne1   1795453158.643635  976 ms  5  "
    )
    same = "2027-01-01 00:00:00,001 WARNING sequencer[81] handled 5 in 1.5 s (2/s)\ne1 1795459999.1 1.2 s 5"
    assert not unsaid(same, said)
    assert unsaid("e1  1795453158.643635  976 ms  6", said)
    assert not differences("\n".join(reversed(same.splitlines())), said), "processes say theirs in any order"
    assert differences(same.splitlines()[0], said) == ["said: e1 ... ... s 5"]
    assert differences(f"{same}\n{same}", said)


def test_what_a_block_printed_is_written_below_it() -> None:
    text = "<!-- exit status 3 -->\n```console\n$ echo one\n$ exit 3\n```\n\n{}\n```text\n{}\n```\n"
    assert readme_blocks.rewritten(text.format(readme_blocks.WHOLE, "two")) == text.format(readme_blocks.WHOLE, "one")
    assert readme_blocks.rewritten(text.format("", "two")) == text.format("", "two"), "only where all is shown"
    with pytest.raises(AssertionError, match="exit status 3"):
        readme_blocks.rewritten(text.replace(" 3 ", " 2 ").format("", ""))


def test_every_readme_is_found_and_most_of_them_run() -> None:
    assert {
        "README.md",
        "benchmarks/README.md",
        "cli/README.md",
        "sequencer/README.md",
        "tests/faults/README.md",
    } <= set(READMES)
    assert {"README.md", "cli/README.md", "sequencer/testing/README.md"} <= {name for name, _ in RUN_HERE}


def test_the_commands_outside_blocks_are_run_elsewhere() -> None:
    """The two set-up commands by `.ci/run`, the fault tests by `.ci/nightly`, the benchmark by test_benchmark_peers."""
    found = {name: lines for name in READMES if (lines := INDENTED.findall(prose(READMES[name])))}
    assert {name: len(lines) for name, lines in found.items()} == {
        "README.md": 2,
        "benchmarks/README.md": 1,
        "tests/faults/README.md": 1,
    }
    for word in ("demo", "pytest"):
        printed = subprocess.run(
            [sys.executable, str(ROOT / ".ci" / "readme_command.py"), word], capture_output=True, text=True, check=True
        )
        assert printed.stdout.strip() in found["README.md"]
    assert found["benchmarks/README.md"] == ["python -m benchmarks peers"]
    ci_run = (ROOT / ".ci" / "run").read_text()
    assert "readme_command.py demo" in ci_run
    assert "readme_command.py pytest" in ci_run
    assert found["tests/faults/README.md"] == ["python -m tests.faults simulate"]
    assert "python -m tests.faults" in (ROOT / ".ci" / "nightly").read_text()


def test_the_first_readme_is_short() -> None:
    assert len(READMES["README.md"].encode()) <= 14 * 1024
    assert len(READMES["README.md"].splitlines()) <= 250


def figures(text: str) -> set[str]:
    """Numbers that were measured: those with three digits and more before their zeros. Round ones are limits."""
    without_versions = re.sub(r"(Kubernetes|Python|Redis|Valkey)( from)? \d+\.\d+", "", prose(text))
    found = re.findall(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d+\.\d+)(?![\w.])", without_versions)
    return {number for number in found if len(re.sub(r"[.,]", "", number).strip("0")) >= 3}


def stand_twice(texts: dict[str, str]) -> dict[str, set[str]]:
    return {
        f"{one}, {other}": both
        for one, other in itertools.combinations(texts, 2)
        if (both := figures(texts[one]) & figures(texts[other]))
    }


def test_each_figure_stands_in_one_place_only() -> None:
    assert stand_twice(READMES) == {}
    assert not re.findall(r"\d [a-z ]*a second|times as fast", READMES["README.md"]), "benchmarks/README.md has them"
    assert len(figures(READMES["benchmarks/README.md"])) > 100


def test_a_figure_that_stands_twice_is_noticed() -> None:
    texts = {"a": "249,600 a second, of 100,000", "b": "It does 249,600 of 100,000.", "c": "Python 3.11 from 1.28 on"}
    assert stand_twice(texts) == {"a, b": {"249,600"}}


def exit_codes(text: str) -> list[str]:
    return re.findall(r"^\| (\d+) \|", text.partition("## Exit codes\n")[2].partition("\n## ")[0], re.MULTILINE)


def test_the_exit_codes_are_the_same_everywhere() -> None:
    """Short in the first README, with cases in that of the commands, and with what a service does in the recipes."""
    assert exit_codes(READMES["README.md"]) == exit_codes(READMES["cli/README.md"])
    of_consume = exit_codes(READMES["cli/recipes/README.md"])
    assert of_consume == exit_codes(READMES["README.md"])[: len(of_consume)] == ["0", "1", "2", "3", "4"]


def anchors(text: str) -> set[str]:
    """As hosts make them of headings."""
    titles = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", READMES)
def test_every_link_leads_somewhere(name: str) -> None:
    broken = []
    for link in LINK.findall(prose(READMES[name])):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = ((ROOT / name).parent / path).resolve() if path else ROOT / name
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    assert not broken


def commands_of(app: typer.Typer) -> dict[str, set[str]]:
    """Each command's name, and the names of those below it."""
    commands = getattr(typer.main.get_command(app), "commands", {})
    return {name: set(getattr(command, "commands", ())) for name, command in commands.items()}


def unknown_commands(text: str) -> list[str]:
    """Commands of ours that a text names and that do not exist. A word in capitals stands for any."""
    import_commands()
    known = commands_of(command_line)
    below: dict[str, Collection[str]] = {"benchmarks": commands_of(benchmarks), "tests.faults": PARTS}
    blocks = [block for part in readme_blocks.parts(text) for block in part]
    consoles = [line for block in blocks if block.kind == "console" for line in block.text.splitlines()]
    spans = SPAN.findall(prose(text)) + INDENTED.findall(prose(text)) + consoles
    unknown = []
    for span in spans:
        for module, name in re.findall(r"python -m ([\w.]+)(?: ([a-z]\w+))?", span):
            if importlib.util.find_spec(module) is None or (module in below and name and name not in below[module]):
                unknown.append(f"python -m {module} {name}".rstrip())
        said = re.search(r"(?:^|[|/ ])sequencer(?: --[\w-]+ \w+)*((?: [a-z]+)+)", span)
        words = said[1].split() if said else []
        if words and (words[0] not in known or (known[words[0]] and words[1:] and words[1] not in known[words[0]])):
            unknown.append(f"sequencer {' '.join(words)}")
    return unknown


@pytest.mark.parametrize("name", READMES)
def test_every_command_exists(name: str) -> None:
    assert not unknown_commands(READMES[name])


def test_a_command_that_does_not_exist_is_noticed() -> None:
    text = (
        "`sequencer push jobs`, `sequencer dead bury`, `python -m sequencer.benchmark`, `python -m tests.faults fire`"
    )
    assert len(unknown_commands(text)) == 4
    assert not unknown_commands("`sequencer --log-format json consume`, `sequencer dead list`, `sequencer COMMAND`")


def test_every_file_that_the_plan_of_the_rooms_names_exists() -> None:
    """Relative to sequencer/, or to the whole."""
    places = {path for span in SPAN.findall(prose(READMES["sequencer/README.md"])) for path in PATH.findall(span)}
    assert len(places) > 20
    rooms = ROOT / "sequencer"
    assert not [path for path in sorted(places) if not any([*rooms.glob(path), *ROOT.glob(path)])]


def as_module(path: str) -> str:
    return path.strip("./").removesuffix(".py").replace("/", ".")


def test_the_drawing_of_the_rooms_is_the_contract_of_imports() -> None:
    """Row by row; the rooms of a drawn row stand in its first 32 columns."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (rows,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    agreed = [{name.strip().removeprefix("sequencer.") for name in row.split("|")} for row in rows]
    (drawing,) = [block.text for block in parts("sequencer/README.md")[0] if not block.kind]
    words = [{*line[:32].split()} for line in drawing.splitlines()]
    drawn = [[word for word in row if as_module(word) in set[str]().union(*agreed)] for row in words]
    assert [{as_module(word) for word in row} for row in drawn if row] == agreed
    assert not [word for row in drawn for word in row if not (ROOT / "sequencer" / word).exists()]
