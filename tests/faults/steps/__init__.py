"""Steps, with a kill at each of their points."""

from .proof import run

__all__ = ["run"]
