"""What a page of the dashboard says after a change. Pure."""

from __future__ import annotations

SAID = {
    "resume": "Resumed, with fresh attempts. If the message fails again, its group is parked again.",
    "skip": "Skipped, and the group goes on. A skipped message is now a dead letter, and can be put back.",
    "unskip": "The message was put back into its place.",
    "pause": "Paused. Running handlers finish; nothing more is claimed.",
    "unpause": "Unpaused.",
    "cancel": "Cancelled. The message was removed and will not be handled.",
    "reschedule": "The message was made due, with fresh attempts.",
    "answer": "The answer is saved, and the message is retried.",
    "redrive": "The message was put back into its place in the group, with fresh attempts.",
    "purge": "Deleted for good.",
    "probe": "The next message is attempted at once.",
    "many": "Done. One request works for about two seconds; anything left is listed below.",
    "unchanged": "Nothing had to be changed.",
}
"""By the word in the address: a page shows no other text from there."""
