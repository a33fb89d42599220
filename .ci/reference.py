"""Prints the reference of all options, in Markdown; with a file, writes it there between its two marks.

python .ci/reference.py docs/configuration.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from sequencer.processes.alerts.settings import QueueAlerts
from sequencer.processes.alerts.targets.table import TargetTable
from sequencer.settings.option import Option, declared
from sequencer.settings.options import ConsumerOptions, PoolOptions, QueueOptions, RunOptions, ServiceOptions
from sequencer.settings.policy import Policy
from sequencer.settings.thresholds import Thresholds

BEGIN, END = "<!-- options: written by .ci/reference.py -->", "<!-- end of options -->"
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


def written(text: str) -> str:
    """A page with the reference between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"the page needs these two lines:\n{BEGIN}\n{END}")
    return f"{before}{BEGIN}\n\n{reference()}\n{END}{after}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        page = Path(sys.argv[1])
        page.write_text(written(page.read_text()))
    else:
        print(reference())
