"""Pictures as SVG: groups by state as a bar, rates as lines. Classes only: the policy of the pages allows no style."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ..values.views import QueueInfo
from .sampler import KEPT_S, Rates

STATES = {"parked": "parked", "paused": "paused", "due": "due", "leased": "in progress", "waiting": "waiting"}
"""As fields of QueueInfo, and how the pages call them."""
LEAST = 1.5
"""Percent of the bar that a state with a single group gets, so that it is seen."""


def bar(info: QueueInfo) -> Markup:
    """Groups by state, in shares of the whole."""
    counts = {state: getattr(info, state) for state in STATES}
    total = sum(counts.values())
    label = ", ".join(f"{count:,} {STATES[state]}" for state, count in counts.items() if count) or "no groups"
    shares = {state: max(LEAST, 100 * count / total) for state, count in counts.items() if count}
    scale, at, parts = 100 / (sum(shares.values()) or 1), 0.0, list[str]()
    for state, share in shares.items():
        width = share * scale
        parts.append(f'<rect class="s-{state}" x="{at:.2f}" width="{width:.2f}" height="8"/>')
        at += width
    return Markup(
        f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f"<title>{label}</title>{''.join(parts)}</svg>"
    )


def highest(seen: Sequence[Rates]) -> float:
    return max(max(one.appended, one.handled) for one in seen)


def rates(seen: Sequence[Rates], width: int, height: int) -> Markup:
    """Appended and handled messages per second, over the last KEPT_S at most; the newest at the right."""
    if len(seen) < 2:
        return Markup("")
    last = seen[-1]
    span = min(KEPT_S, max(60.0, last.at - seen[0].at))
    most = max(1.0, highest(seen))
    lines = ""
    for name in ("appended", "handled"):
        points = " ".join(
            f"{width * (1 - (last.at - one.at) / span):.1f},{height - 1 - (height - 2) * getattr(one, name) / most:.1f}"
            for one in seen
            if last.at - one.at <= span
        )
        lines += f'<polyline class="r-{name}" points="{points}"/>'
    label = f"appended {last.appended:,.1f}/s, handled {last.handled:,.1f}/s; at most {most:,.0f}/s"
    return Markup(
        f'<svg class="rates" viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" '
        f'aria-label="{label}"><title>{label}</title>{lines}</svg>'
    )
