"""Crash at every step."""

from .fault_test import run

__all__ = ["run"]
