"""What the programs of a version share: which server, which version, and how it is broken on purpose; see versions.py.

They use only names that every version since 0.4.0 has.
"""

from __future__ import annotations

import os
import re
from typing import Any

import sequencer
from sequencer import Sequencer

URL, NAMESPACE = os.environ["VERSION_URL"], os.environ["VERSION_NAMESPACE"]
TWINS = {
    "a digit more": (r"'0000([A0])'", r"'00000\1'"),
    "a wrong flag": (r"'00000'", "'0000A'"),
    "leases in s": (r"now \+ lease_ms \* 1000", "now + lease_ms / 1000"),
}
"""Name of a twin -> what its scripts have, and what they have instead: records with another head, leases that end
before their time."""


def queue(name: str, **options: Any) -> Sequencer:
    return Sequencer(name, URL, namespace=NAMESPACE, backoff=0.01, **options)


def be_as_asked() -> None:
    """Check that this is the version that was asked for, and make it the twin that was asked for."""
    assert sequencer.__version__ == os.environ["VERSION_EXPECTED"], f"{sequencer.__version__} at {sequencer.__file__}"
    if twin := os.environ["VERSION_TWIN"]:
        from sequencer.calls import source  # only the version in this tree has twins: older ones lack this module

        (text, wrong), read = TWINS[twin], source._read
        source._read = lambda name: re.sub(text, wrong, read(name))
