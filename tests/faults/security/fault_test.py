"""Security: the least rights do the job and each missing one is named first; TLS; secrets that show nowhere.

Three parts, each to be repeated alone with `--only`: rights, tls, canary.
"""

from __future__ import annotations

import time
from typing import Any

from ..report import Result, Scale
from .canary import prove_canary
from .rights import prove_rights
from .tls import prove_tls

PARTS = ("rights", "tls", "canary")


def run(scale: Scale = "smoke", *, only: str | None = None) -> Result:
    """Check everything once, whatever the scale. Raises ValueError for another part."""
    if only not in (None, *PARTS):
        raise ValueError(f"only={only!r} must be one of {', '.join(PARTS)}")
    began = time.monotonic()
    runs, figures, faults, problems = 0, dict[str, Any](), dict[str, int](), list[str]()
    if only in (None, "rights"):
        tried = prove_rights()
        runs += tried.rights + tried.jobs
        problems += tried.problems
        faults["rights taken away"] = tried.rights
        figures["missing rights named before the first message"] = f"{tried.named} of {tried.rights}"
        figures["cases in which something was written or handled before that"] = tried.changed
        figures["roles that do their whole job with the least rights"] = tried.jobs
    if only in (None, "tls"):
        tls = prove_tls()
        runs += tls.cases
        problems += tls.problems
        figures["TLS cases"] = tls.cases
        if tls.skipped:
            figures["skipped parts"] = f"TLS: {tls.skipped}"
        else:
            figures["slowest refusal with TLS, s"] = round(tls.slowest_s, 2)
    if only in (None, "canary"):
        search = prove_canary()
        runs += search.places
        problems += search.problems
        figures["places searched for a password and a payload"] = search.places
        figures["characters searched"] = search.characters
    words = f" --only {only}" if only else ""
    return Result(
        name="security",
        command=f"python -m tests.faults security --scale {scale}{words}",
        runs=runs,
        unit="checks",
        faults=faults,
        figures=figures,
        problems=problems,
        seconds=time.monotonic() - began,
    )
