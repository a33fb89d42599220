"""A consumer in a thread, for tests that look at it from outside."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sequencer import Sequencer
from sequencer.consume.threads import Consumer


class Background:
    """A consumer in a thread of its own, stopped and joined at the end."""

    def __init__(self, seq: Sequencer, handler: Callable[..., Any] | None, **options: Any) -> None:
        started = threading.Event()
        self.consumer: Consumer
        self.summary: Any = None

        def on_start(consumer: Consumer) -> None:
            self.consumer = consumer
            started.set()

        def run() -> None:
            self.summary = seq.consume(handler, on_start=on_start, **options)

        self.thread = threading.Thread(target=run)
        self.thread.start()
        assert started.wait(10)

    def __enter__(self) -> Background:
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.stop()
        self.thread.join(10)
        assert not self.thread.is_alive()
