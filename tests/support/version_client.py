"""What the programs of a version share: which server, which version, and how it is broken on purpose; see versions.py.

They use only names that every version since 0.4.0 has.
"""

from __future__ import annotations

import os
import re
from typing import Any

import redis

import sequencer
from sequencer import Sequencer

URL, NAMESPACE = os.environ["VERSION_URL"], os.environ["VERSION_NAMESPACE"]
TWINS = {
    "a digit more": (r"'0000([A0])'(?! \.\. time)", r"'00000\1'"),
    "a wrong flag": (r"'00000'(?! \.\. time)", "'0000A'"),
    "leases in s": (r"now \+ lease_ms \* 1000", "now + lease_ms / 1000"),
}
"""Name of a twin -> what its scripts have, and what they have instead: records with another head, leases that end
before their time. The zeros before a time's microseconds are none of a record's."""


def queue(name: str, **options: Any) -> Sequencer:
    """A client of this queue, which is made as 0.4.0 would make it: later versions make others, which that refuses."""
    if os.environ.get("VERSION_QUEUES") != "new":
        _make_old(name, options)
    return Sequencer(name, URL, namespace=NAMESPACE, backoff=0.01, **options)


def _make_old(name: str, options: dict[str, Any]) -> None:
    """Make a queue of 0.4.0, where a version with registries would make another; not one that is there."""
    try:
        from sequencer.settings.policy import NAMES, merge_policy
        from sequencer.store.keys import index_key, lane_keys
    except ImportError:
        return  # this version makes no others
    asked = {option: options[option] for option in NAMES if option in options}
    lanes = options.get("lanes") or 1
    with redis.Redis.from_url(URL) as client, client.pipeline() as pipeline:
        pipeline.hsetnx(index_key(NAMESPACE), name, lanes)
        for lane in range(lanes):
            for field, value in merge_policy(name, {}, asked).stored().items():
                pipeline.hsetnx(lane_keys(NAMESPACE, name, lane).policy, field, value)
        pipeline.execute()


def be_as_asked() -> None:
    """Check that this is the version that was asked for, and make it the twin that was asked for."""
    assert sequencer.__version__ == os.environ["VERSION_EXPECTED"], f"{sequencer.__version__} at {sequencer.__file__}"
    if twin := os.environ["VERSION_TWIN"]:
        from sequencer.calls import source  # only the version in this tree has twins: older ones lack this module

        (text, wrong), read = TWINS[twin], source._read
        source._read = lambda name: re.sub(text, wrong, read(name))
