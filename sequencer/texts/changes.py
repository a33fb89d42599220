"""What a page of the dashboard says after a change. Pure."""

from __future__ import annotations

SAID = {
    "resume": "The group goes on, and its first message has fresh attempts.",
    "skip": "Skipped, and the group goes on. A message is a dead letter now, and can be put back.",
    "unskip": "The message is back in its place.",
    "pause": "Paused from the next claim on; running handlers finish.",
    "unpause": "It goes on.",
    "cancel": "The message is removed; it will not be handled.",
    "reschedule": "The message has its new time, and fresh attempts.",
    "answer": "The answer is saved, and the message goes on.",
    "redrive": "The message is back in its place in its group, with fresh attempts.",
    "purge": "Deleted for good.",
    "probe": "The next message is attempted at once.",
    "many": "Done, as far as there was time for; this is what is left.",
    "unchanged": "Nothing was to be changed.",
}
"""By the word in the address: a page shows no other text from there."""
