"""The server's own faults: killed, cut, full, without rights, failed over.

Each case is a function of a `server_*` module that fills in a `Found`: `python -m tests.faults server --only kill`.
A case that needs a program which is not installed says so in the figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from sequencer.errors import ConfigurationError

from ..report import Result, Scale
from .cut import cut
from .denied import denied
from .failover import failover
from .found import COMMAND, Found
from .full import full
from .host import is_ended
from .kill import kill

SEED = 1
CASES: Mapping[str, Callable[[Found], None]] = {
    "failover": failover,
    "kill": kill,
    "cut": cut,
    "full": full,
    "denied": denied,
}
"""The longest first: a part in CI runs two at a time, as most of their time is waiting."""
SMOKE = ("cut", "full", "kill")


def run(scale: Scale, *, only: str | None = None, seed: int | None = None) -> Result:
    """All cases of a scale, or one. Raises ConfigurationError for a name that is none."""
    if only is not None and only not in CASES:
        raise ConfigurationError(f"there is no case {only!r}; choose from {', '.join(CASES)}")
    names = [only] if only else [name for name in CASES if scale != "smoke" or name in SMOKE]
    began = time.monotonic()
    total = Found(SEED if seed is None else seed, scale)
    cases = [Found(total.seed, scale, name) for name in names]
    is_ended.clear()
    with ThreadPoolExecutor(1 if scale == "nightly" else 2) as pool:
        try:
            list(pool.map(_try, cases))
        except BaseException:
            is_ended.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for case in cases:
        total.merge(case)
    words = (f" --only {only}" if only else "") + (f" --seed {seed}" if seed is not None else "")
    return total.result(f"{COMMAND} --scale {scale}{words}", time.monotonic() - began)


def _try(found: Found) -> None:
    """One case; where it breaks down, that is its problem, and the others go on."""
    try:
        CASES[found.case](found)
    except Exception as error:
        found.problem(f"it broke down: {type(error).__name__}: {error}")
