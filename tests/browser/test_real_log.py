"""An operator who never saw it: four cases of a real log that stand still are found and fixed in the browser alone,
which here runs no script.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

import pytest

from ..process.test_real_log import real_log
from .conftest import Tabs

pytestmark = pytest.mark.nightly


def test_a_parked_a_poisoned_a_delayed_and_a_late_case_are_fixed(tabs: Tabs, make: Any, seq: Any) -> None:
    cases = defaultdict[str, list[Any]](list)
    for line in real_log():
        event = json.loads(line)
        cases[event["case"]].append(event)
    parked, poisoned, delayed, late = [name for name, events in cases.items() if len(events) > 3][:4]
    last, missed = cases[delayed].pop(), cases[late].pop(1)
    make("jobs", max_attempts=1, on_late="dead_letter").connect()
    broken, handled = {parked, poisoned}, list[int]()

    def handle(message: Any) -> None:
        if message.group[0] in broken and message.body["n"] == cases[message.group[0]][1]["n"]:
            raise KeyError(f"no customer in {message.id}")
        handled.append(message.body["n"])

    def append(event: Any, **options: Any) -> dict[str, Any]:
        return {"body": event, "group": event["case"], "id": event["n"], **options}

    seq.append_many([append(one, score=one["ts"]) for events in cases.values() for one in events])
    seq.append(**append(last, delay=864_000))
    seq.consume(handle, until_idle=True)
    seq.append(**append(missed, score=missed["ts"]))
    seq.consume(handle, until_idle=True)
    broken.discard(parked)  # somebody fixed what it needs

    def fix(name: str, button: str) -> None:
        page.get_by_role("searchbox").fill(name)
        page.keyboard.press("Enter")
        page.get_by_role("button", name=re.compile(button)).click()
        page.wait_for_url("**said=*")
        seq.consume(handle, until_idle=True)

    page = tabs.open(java_script_enabled=False)
    fix(f"'{parked}'", "^Retry")
    fix(f"'{poisoned}'", "^Skip")
    fix(f"'{delayed}'", "due now")
    fix(f"'{late}'", "^Put it back")
    page.goto(f"{tabs.url}/q/jobs/")
    assert "No group waits for an operator" in page.inner_text("main")
    everything = [one["n"] for events in cases.values() for one in events] + [last["n"], missed["n"]]
    assert sorted({*everything} - {*handled}) == [cases[poisoned][1]["n"]]
    assert (len(handled), seq.count_dead(), seq.info().groups) == (len(everything) - 1, 1, 0)
