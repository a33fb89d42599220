"""The server's own faults."""

from .fault_test import run

__all__ = ["run"]
