"""Least rights, TLS, and secrets that must not show."""

from .proof import run

__all__ = ["run"]
