"""Odd values, command lines, records and replies."""

from .proof import run

__all__ = ["run"]
