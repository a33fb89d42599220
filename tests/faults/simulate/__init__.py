"""Deterministic simulation: the real library in virtual time on a real server."""

from .proof import run

__all__ = ["run"]
