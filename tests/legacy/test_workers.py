"""002: several types, each with n processes under a master; rows by business key and by id; the life of a child."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from .conftest import Load

Said = pytest.CaptureFixture[str]
pytestmark = pytest.mark.nightly


@pytest.fixture
def work(load: Load) -> Any:
    return load("workers", missing_wait=0.0, backoff=0.2, max_attempts=2)


def drain(work: Any) -> None:
    for queue in work.QUEUES.values():
        queue.consume(until_empty=True)


def test_the_callback_of_a_row_says_which_function_does_it(work: Any, capsys: Said) -> None:
    work.add(work.MAIL, "order-7", "send_mail", {"to": "ann"})
    work.add(work.MAIL, "order-7", "send_receipt", {"number": 70})
    work.add(work.REPORT, "shop-1", "month", {"month": "May"})
    drain(work)
    assert capsys.readouterr().out.splitlines() == ["mail to ann", "receipt 70", "report of May"]


def test_rows_are_found_by_their_business_key_and_by_their_id(work: Any) -> None:
    first = work.add(work.MAIL, "order-7", "send_mail", {"to": "ann"}, mark="by hand")
    work.add(work.MAIL, "order-8", "send_mail", {"to": "bob"})
    assert work.mails.peek(["order-7"])[0].headers == {"mark": "by hand"}
    drain(work)
    second = work.add(work.MAIL, "order-7", "send_receipt", {"number": 70})
    assert work.by_key(work.MAIL, "order-7") == [second, first]
    (row,) = work.by_id(first)
    assert (row.group, row.kind, row.status) == (("order-7",), "send_mail", "finished")
    assert row.consumer.split(":")[1] == str(os.getpid())


def test_the_masters_look_tells_of_a_backlog(work: Any) -> None:
    seen = work.mails.snapshot()
    assert work.look(seen) is None
    assert work.look(replace(seen, due=1001)) == "1001 business keys wait"
