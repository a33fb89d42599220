"""README.md and docs/: their blocks run as they stand there, and what they name exists.

The site is built with broken links as errors by `.ci/run`. The two set-up commands install the project from the
registries; `.ci/run` takes them from the pages and runs them in a clean copy.
"""

from __future__ import annotations

import importlib.util
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

from ..support import doc_blocks
from ..support.doc_blocks import PAGES, ROOT, differences, missing, prose

RUN_ELSEWHERE = {
    f"docs/{page}.md" for page in ("async", "dashboard", "deployment", "frameworks", "from-celery", "from-rq")
}
"""Their blocks are of systemd, Docker and Kubernetes, and of frameworks: test_recipes.py and its sister."""

FOR_CONTRIBUTORS = ("CONTRIBUTING.md", "sequencer/README.md", "tests/faults/README.md")
TEXTS = PAGES | {name: (ROOT / name).read_text(encoding="utf-8") for name in FOR_CONTRIBUTORS}
MOST_WORDS, MOST_LINES = 1500, 200
INDENTED = re.compile(r"^    (\S.*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:[\w.*-]+/)*(?:[\w*-]+\.(?:py|lua|json|md|toml)|[\w.-]+/)")

RUN_HERE = [
    pytest.param(name, number, id=f"{name}-{number}", marks=[] if name == "README.md" else pytest.mark.nightly)
    for name in PAGES
    if name not in RUN_ELSEWHERE
    for number, part in enumerate(doc_blocks.parts(PAGES[name]))
    if any(block.is_run for block in part)
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "part"), RUN_HERE)
def test_every_block_runs(name: str, part: int) -> None:
    doc_blocks.check(doc_blocks.parts(PAGES[name])[part])


def test_a_block_that_shows_what_was_not_printed_is_noticed() -> None:
    printed = (
        "2026-11-23 14:14:51,203 WARNING sequencer[7] handled 5 in 0.66 s (17/s)\ne1   1795453158.643635  976 ms  5  "
    )
    same = "2027-01-01 00:00:00,001 WARNING sequencer[81] handled 5 in 1.5 s (2/s)\ne1 1795459999.1 1.2 s 5"
    assert not missing(same, printed)
    assert missing("e1  1795453158.643635  976 ms  6", printed)
    assert not differences("\n".join(reversed(same.splitlines())), printed), "processes print in any order"
    assert differences(same.splitlines()[0], printed) == ["printed: e1 ... ... s 5"]
    assert differences(f"{same}\n{same}", printed)


def test_what_a_block_printed_is_written_below_it() -> None:
    text = "<!-- exit status 3 -->\n```console\n$ echo one\n$ exit 3\n```\n\n{}\n```text\n{}\n```\n"
    assert doc_blocks.updated(text.format(doc_blocks.WHOLE, "two")) == text.format(doc_blocks.WHOLE, "one")
    assert doc_blocks.updated(text.format("", "two")) == text.format("", "two"), "only where all is shown"
    with pytest.raises(AssertionError, match="exit status 3"):
        doc_blocks.updated(text.replace(" 3 ", " 2 ").format("", ""))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_short(name: str) -> None:
    if name == "README.md":
        assert len(PAGES[name].splitlines()) <= MOST_LINES
    elif doc_blocks.GENERATED not in PAGES[name]:
        assert len(re.findall(r"\S*\w\S*", PAGES[name])) <= MOST_WORDS


def test_every_page_is_in_the_navigation() -> None:
    site = (ROOT / "docs" / "zensical.toml").read_text(encoding="utf-8")
    listed = re.findall(r'"([\w-]+\.md)"', site)
    assert sorted(f"docs/{page}" for page in listed) == [name for name in PAGES if name != "README.md"]


@pytest.mark.parametrize("word", ["demo", "pytest"])
def test_the_set_up_commands_are_found_by_the_merge_gate(word: str) -> None:
    printed = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "readme_command.py"), word], capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() in INDENTED.findall(prose(TEXTS["README.md"]) + prose(TEXTS["CONTRIBUTING.md"]))
    assert f"readme_command.py {word}" in (ROOT / ".ci" / "run").read_text()


def anchors(text: str) -> set[str]:
    """As hosts make them of headings."""
    titles = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", [*TEXTS, "CHANGELOG.md"])
def test_every_link_leads_somewhere(name: str) -> None:
    broken = []
    for link in LINK.findall(prose((ROOT / name).read_text(encoding="utf-8"))):
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
    blocks = [block for part in doc_blocks.parts(text) for block in part]
    consoles = [line for block in blocks if block.kind == "console" for line in block.text.splitlines()]
    spans = SPAN.findall(prose(text)) + INDENTED.findall(prose(text)) + consoles
    unknown = []
    for span in spans:
        for module, name in re.findall(r"python -m ([\w.]+)(?: ([a-z]\w+))?", span):
            if importlib.util.find_spec(module) is None or (module in below and name and name not in below[module]):
                unknown.append(f"python -m {module} {name}".rstrip())
        found = re.search(r"(?:^|[|/ ])sequencer(?: --[\w-]+ \w+)*((?: [a-z]+)+)", span)
        words = found[1].split() if found else []
        if words and (words[0] not in known or (known[words[0]] and words[1:] and words[1] not in known[words[0]])):
            unknown.append(f"sequencer {' '.join(words)}")
    return unknown


@pytest.mark.parametrize("name", TEXTS)
def test_every_command_exists(name: str) -> None:
    assert not unknown_commands(TEXTS[name])


def test_a_command_that_does_not_exist_is_noticed() -> None:
    text = (
        "`sequencer push jobs`, `sequencer dead bury`, `python -m sequencer.benchmark`, `python -m tests.faults fire`"
    )
    assert len(unknown_commands(text)) == 4
    assert not unknown_commands("`sequencer --log-format json consume`, `sequencer dead list`, `sequencer COMMAND`")


def test_every_file_that_the_plan_of_the_rooms_names_exists() -> None:
    """Relative to sequencer/, or to the whole."""
    places = {path for span in SPAN.findall(prose(TEXTS["sequencer/README.md"])) for path in PATH.findall(span)}
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
    (drawing,) = [block.text for block in doc_blocks.parts(TEXTS["sequencer/README.md"])[0] if not block.kind]
    words = [{*line[:32].split()} for line in drawing.splitlines()]
    drawn = [[word for word in row if as_module(word) in set[str]().union(*agreed)] for row in words]
    assert [{as_module(word) for word in row} for row in drawn if row] == agreed
    assert not [word for row in drawn for word in row if not (ROOT / "sequencer" / word).exists()]
