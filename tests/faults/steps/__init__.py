"""Steps, with a kill at each of their points."""

from .fault_test import run

__all__ = ["run"]
