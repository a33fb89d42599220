"""Odd values, command lines, records and replies."""

from .fault_test import run

__all__ = ["run"]
