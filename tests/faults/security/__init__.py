"""Least rights, TLS, and secrets that must not show."""

from .fault_test import run

__all__ = ["run"]
