"""Deterministic simulation: the real library in virtual time on a real server."""

from .fault_test import run

__all__ = ["run"]
