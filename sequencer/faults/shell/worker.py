"""A consumer process with what SQ_SHELL_TWINS names changed in it."""

from __future__ import annotations

import sys

from ...worker import main
from .twins import apply

if __name__ == "__main__":
    apply()
    sys.exit(main())
