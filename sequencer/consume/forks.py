"""A handler may fork, and the child may come back out of it: it must not become a second consumer."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, NoReturn


class Fork:
    """`count`: how often this process is a copy of another."""

    count = 0


def _count() -> None:
    Fork.count += 1


os.register_at_fork(after_in_child=_count)


def exit_child(error: BaseException | None) -> NoReturn:
    """A handler forked, and this is the child, which came back: it ends here and does not become a second consumer."""
    code: Any = 0
    if isinstance(error, SystemExit):
        code = error.code
    elif error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code or 0)
