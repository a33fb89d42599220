"""The processes around the core: stopped, crashed and starved the way operators and machines do it."""

from .fault_test import run

__all__ = ["run"]
