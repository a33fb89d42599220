"""Which commands a server carries out, with those that scripts call."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from sequencer.net.link import Link


def command_counts(link: Link) -> Counter[str]:
    text = link.command("INFO", "commandstats").decode()
    return Counter({name: int(count) for name, count in re.findall(r"cmdstat_(\S+?):calls=(\d+)", text)})


def commands_of(link: Link, act: Callable[[], object]) -> Counter[str]:
    """What it carries out meanwhile, but for the scripts themselves and the question."""
    before = command_counts(link)
    act()
    found = command_counts(link) - before
    return Counter({name: count for name, count in found.items() if "eval" not in name and name != "info"})
