"""The server's own faults."""

from .proof import run

__all__ = ["run"]
