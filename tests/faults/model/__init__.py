"""The lease protocol in a model checker."""

from .proof import run

__all__ = ["run"]
