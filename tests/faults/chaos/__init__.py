"""Real processes behind a proxy that loses, delays, repeats and lies."""

from .fault_test import run

__all__ = ["run"]
