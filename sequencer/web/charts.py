"""Pictures as SVG: groups by state as a bar, rates as lines. Classes only: the policy of the pages allows no style."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ..values.views import QueueInfo
from .sampler import Rates

STATES = {"parked": "parked", "paused": "paused", "due": "due", "leased": "in progress", "waiting": "waiting"}
"""As fields of QueueInfo, and how the pages call them."""
LEAST = 0.015
"""Share of all groups that a state has at least in the bar, so that a single group is seen."""


def bar(info: QueueInfo) -> Markup:
    """Groups by state, in shares of the whole."""
    counts = {state: getattr(info, state) for state in STATES if getattr(info, state)}
    label = ", ".join(f"{count:,} {STATES[state]}" for state, count in counts.items()) or "no groups"
    least, at, parts = LEAST * sum(counts.values()), 0.0, ""
    for state, count in counts.items():
        parts += f'<rect class="s-{state}" x="{at:.6g}" width="{max(least, count):.6g}" height="1"/>'
        at += max(least, count)
    return _picture("bar", at or 1, 1, label, parts)


def rates(seen: Sequence[Rates], width: int, height: int) -> Markup:
    """Appended and handled messages per second, over the last KEPT_S at most; the newest at the right."""
    if len(seen) < 2:
        return Markup("")
    last, most = seen[-1], max(1.0, *(max(one.appended, one.handled) for one in seen))
    span = max(60.0, last.at - seen[0].at)
    lines = ""
    for name in ("appended", "handled"):
        points = " ".join(
            f"{width * (1 - (last.at - one.at) / span):.1f},{height - 1 - (height - 2) * getattr(one, name) / most:.1f}"
            for one in seen
        )
        lines += f'<polyline class="r-{name}" points="{points}"/>'
    label = f"appended {last.appended:,.1f}/s, handled {last.handled:,.1f}/s; at most {most:,.0f}/s"
    return _picture("rates", width, height, label, lines)


def _picture(kind: str, width: float, height: float, label: str, shapes: str) -> Markup:
    return Markup(
        f'<svg class="{kind}" viewBox="0 0 {width:.6g} {height}" preserveAspectRatio="none" role="img" '
        f'aria-label="{label}"><title>{label}</title>{shapes}</svg>'
    )
