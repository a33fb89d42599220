"""Real processes behind a proxy that loses, delays, repeats and lies."""

from .proof import run

__all__ = ["run"]
