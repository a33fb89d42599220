"""What is said of a database that can't be used, and a relay that ends."""

from __future__ import annotations

import pytest

from sequencer import Sequencer
from sequencer.errors import ConfigurationError, ServerError
from sequencer.outbox.operate import Operated
from tests.support.databases import Database

from ..support.refused import refused
from .conftest import Tables


def test_tables_that_are_are_missing_or_there(tables: Tables) -> None:
    with refused(ConfigurationError, "outbox_missing"):
        Operated(tables.db.connect, "jobs", prefix="none_").status()
    tables.operated.create()
    assert tables.operated.backlog() == (0, 0.0, 0)


@pytest.mark.nightly
def test_a_database_that_is_away_is_told(tables: Tables, db: Database) -> None:
    if db.kind == "sqlite":
        pytest.skip("it is a file")
    db.kill()
    try:
        with refused(ServerError, "database_failed"):
            tables.operated.status()
    finally:
        db.start()


def test_a_relay_that_ends_leaves_its_place(tables: Tables, seq: Sequencer) -> None:
    first, second = tables.relay(), tables.relay()
    first.round()
    tables.append("a")
    assert second.round() == 0, "the first one leads"
    first.stop()
    first.run()
    assert second.round() == 1
