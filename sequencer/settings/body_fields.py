"""Which fields of a body make group, id and score, and how the server remembers that with the queue. Pure.

Who names one first sets it for the queue; who names none takes what is there; another value is refused. The server
keeps one JSON object, so that another kind of field can join, and a client leaves alone what it does not know there.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ..errors import ConfigurationError, DataError

BODY_FIELDS = "fields"  # where the server keeps them: a field of the policy of shard 0


class BodyFields(NamedTuple):
    """Names of body fields; a dot in a name leads into a field of a field. None where there is none."""

    group_by: tuple[str, ...] | None = None
    id_by: str | None = None
    score_by: str | None = None


def read_fields(stored: str | None) -> BodyFields:
    """From the text that the server keeps, None for none. Raises DataError for what no client of ours wrote."""
    values = _object(stored)
    group_by = values.get("group_by")
    names = [*(group_by or ()), *(one for name in ("id_by", "score_by") if (one := values.get(name)) is not None)]
    is_list = group_by is None or (isinstance(group_by, list) and bool(group_by))
    if not is_list or not all(isinstance(name, str) and name for name in names):
        raise DataError("body_fields_foreign", value=stored)
    return BodyFields(tuple(group_by) if group_by else None, values.get("id_by"), values.get("score_by"))


def write_fields(fields: BodyFields, stored: str | None) -> str:
    """The text that the server keeps, when it had this one. Raises DataError for what no client of ours wrote."""
    known = {name: value for name, value in fields._asdict().items() if value is not None}
    return json.dumps({**_object(stored), **known})


def merge_fields(queue: str, known: BodyFields, asked: BodyFields) -> BodyFields:
    """What a queue remembers when a client asks for these. Raises ConfigurationError for another value than its own."""
    merged = known._asdict()
    for name, value in asked._asdict().items():
        if value is None:
            continue
        if merged[name] not in (None, value):
            raise ConfigurationError("option_fixed", queue=queue, name=name, before=merged[name], value=value)
        merged[name] = value
    return BodyFields(**merged)


def _object(stored: str | None) -> dict[str, Any]:
    values = json.loads(stored) if stored else {}
    if not isinstance(values, dict):
        raise DataError("body_fields_foreign", value=stored)
    return values
