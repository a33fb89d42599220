"""The lease protocol in a model checker."""

from .fault_test import run

__all__ = ["run"]
