"""What a page of the dashboard says after a change. Pure."""

from __future__ import annotations

SAID = {
    "resumed": "The group goes on, and its first message has fresh attempts.",
    "already_due": "The group was due already; nothing was changed.",
    "skipped": "The message is a dead letter now, and its group goes on. It can be put back from there.",
    "gap_skipped": "The missing numbers are skipped, and the group goes on.",
    "unskipped": "The message is back in its place.",
    "paused": "Paused from the next claim on; running handlers finish.",
    "already_paused": "It was paused already.",
    "unpaused": "It goes on.",
    "not_paused": "It was not paused.",
    "cancelled": "The message is removed; it will not be handled.",
    "rescheduled": "The message has its new time, and fresh attempts.",
    "answered": "The answer is saved, and the message goes on.",
    "redriven": "The message is back in its place in its group, with fresh attempts.",
    "redriven_parked": "The message is back in its group, which is parked: resume it to let it go on.",
    "purged": "Deleted for good.",
    "probing": "The next message is attempted at once.",
    "no_outage": "No outage holds this queue back; nothing was changed.",
    "started": "Started; this page shows how far it is.",
    "stopping": "It stops after the groups that it is changing now.",
    "no_job": "Nothing was running any more.",
}
"""By the word in the address: a page shows no other text from there."""
UNCHANGED = {"already_due", "already_paused", "not_paused", "no_outage", "no_job"}
