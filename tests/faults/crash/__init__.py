"""Crash at every step."""

from .proof import run

__all__ = ["run"]
