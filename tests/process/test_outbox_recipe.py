"""The example of docs/outbox.md for FastAPI with SQLAlchemy, from a request to a handler."""

from __future__ import annotations

from ..support import doc_blocks
from ..support.doc_blocks import PAGES, Block

REQUESTS = """
from fastapi.testclient import TestClient

import shop, web
from sequencer.outbox import Relay

client = TestClient(web.app, raise_server_exceptions=False)
print([client.post("/orders", json={"order": number}).status_code for number in (7, 8, 7)])
relay = Relay(shop.connect, shop.seq)
while relay.round():
    pass
print(relay.sent)
shop.seq.consume(until_empty=True)
"""


def test_an_order_and_its_message_are_of_one_transaction() -> None:
    (blocks,) = doc_blocks.parts(PAGES["docs/outbox.md"])
    with doc_blocks.new_place() as place:
        for block in blocks:
            doc_blocks.write(block, place.directory)
        doc_blocks.run(Block("console", "$ sequencer outbox create --db sqlite:///shop.db"), place)
        (place.directory / "requests.py").write_text(REQUESTS)
        printed = doc_blocks.run(Block("console", "$ python requests.py"), place)
    lines = ["[201, 201, 500]", "2", "invoice of order 7", "invoice of order 8"]
    assert [line for line in printed.splitlines() if line in lines] == lines
