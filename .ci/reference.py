"""Writes the references of options and events into their pages, each between two marks: python .ci/reference.py"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from sequencer.processes.alerts.settings import QueueAlerts
from sequencer.processes.alerts.targets import TargetTable
from sequencer.settings.option import Option, declared
from sequencer.settings.options import ConsumerOptions, PoolOptions, QueueOptions, RunOptions, ServiceOptions
from sequencer.settings.policy import Policy
from sequencer.settings.thresholds import Thresholds
from sequencer.texts.events import COMMANDS, EVENTS, FIELDS

BEGIN, END = "<!-- written by .ci/reference.py -->", "<!-- end of the reference -->"
SECTIONS: dict[str, tuple[type, ...]] = {
    "A queue": (QueueOptions,),
    "The policy of a queue": (Policy,),
    "A consumer": (ConsumerOptions,),
    "A service": (ServiceOptions,),
    "A queue in the file of `run`": (PoolOptions,),
    "The file of `run`": (RunOptions,),
    "Alerts: `[alerts]`, `[queues.NAME.alerts]`": (Thresholds, QueueAlerts),
    "A target: `[targets.NAME]`": (TargetTable,),
}
KEYWORDS = {QueueOptions: "`Sequencer()`", Policy: "`Sequencer()`", ConsumerOptions: "`consume()`"}
WORDS = {"append": "`append`", "configure": "`configure`", "consume": "`consume`", "run": "file"}


def reference() -> str:
    """A table for each subject."""
    lines = list[str]()
    for title, kinds in SECTIONS.items():
        lines += [f"### {title}", "", "| option | default | takes | where | |", "| --- | --- | --- | --- | --- |"]
        for kind in kinds:
            above = declared(ConsumerOptions) if kind is ServiceOptions else {}
            lines += [row(one, KEYWORDS.get(kind, "")) for name, one in declared(kind).items() if name not in above]
        lines.append("")
    return "\n".join(lines)


def row(one: Option, keyword: str) -> str:
    default = f"`{one.default_text}`" if one.default_text else ""
    takes = f"{one.kind.word} {one.kind.bounds}".strip()
    where = ", ".join([*([keyword] if keyword else []), *(WORDS[taker] for taker in one.takers)])
    where += f", `{one.variable}`" if one.variable else ""
    return f"| `{one.name}` | {default} | {takes} | {where} | {one.help} |"


def events() -> str:
    """A table of what the log and observers are told."""
    lines = ["| event | level | when | fields |", "| --- | --- | --- | --- |"]
    for name, kind in sorted(EVENTS.items()):
        observed = " *" if kind.is_observed else ""
        fields = ", ".join(f"`{field}`" for field in kind.fields)
        lines.append(f"| `{name}`{observed} | {logging.getLevelName(kind.level)} | {kind.meaning} | {fields} |")
    lines += ["", "| field | holds |", "| --- | --- |"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in sorted(FIELDS.items())]
    lines += ["", "| command | what it does |", "| --- | --- |"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in COMMANDS.items()]
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {"docs/configuration.md": reference, "docs/events.md": events}


def written(text: str, reference: str) -> str:
    """A page with a reference between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"the page needs these two lines:\n{BEGIN}\n{END}")
    return f"{before}{BEGIN}\n\n{reference}\n{END}{after}"


if __name__ == "__main__":
    for name, made in PAGES.items():
        page = Path(__file__).parents[1] / name
        page.write_text(written(page.read_text(), made()))
