"""URLs of servers: what they name, and what of them may be printed."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from .slots import Place

SCHEMES = {"valkey": "redis", "valkeys": "rediss", "redis": "redis", "rediss": "rediss", "unix": "unix"}
PORTS = {"sentinel": 26379, "cluster": 6379}
_SEVERAL = re.compile(r"(\w+)\+(\w+)://([^/?#]*@)?([^/?#@\s]+)(?:/([^/?#@]*))?(/[^/?#@]*)?(?:\?([^?#@]*))?")


class Several(NamedTuple):
    """What such a URL names."""

    places: list[Place]
    primary: str
    """What Sentinels call it."""
    login: dict[str, str]
    """User and password for Sentinels."""
    server_url: str
    """What its URL would be, were it one server called `node`."""
    name: str
    """The URL without what is secret."""


def parse_several(url: str) -> Several:
    """`redis+sentinel://[user:pass@]h1[:26379],h2/NAME[/db][?sentinel_username=&sentinel_password=]`, or
    `redis+cluster://[user:pass@]h1[:6379],h2/[?options]`. Raises ValueError.
    """
    found = _SEVERAL.fullmatch(url)
    scheme, kind, user, hosts, name, path, query = (part or "" for part in found.groups()) if found else [""] * 7
    is_named = kind == "sentinel"
    if kind not in PORTS or (not name if is_named else name + path not in ("", "0")):
        raise ValueError
    parts = [urlsplit(f"//{host}") for host in hosts.split(",")]
    places = [(one.hostname or "", one.port or PORTS[kind]) for one in parts]
    if not all(host for host, _ in places):
        raise ValueError
    login, options = dict[str, str](), list[str]()
    for option in query.split("&"):
        key, _, value = option.partition("=")
        if is_named and key in ("sentinel_username", "sentinel_password"):
            login[key.removeprefix("sentinel_")] = unquote(value)
        else:
            options.append(option)
    shown = f"{scheme}+{kind}://{'***@' if user or 'password' in login else ''}{hosts}"
    shown = printable(f"{shown}/{name}{path}" if is_named else shown)
    return Several(places, unquote(name), login, f"{scheme}://{user}node{path}?{'&'.join(options)}", shown)


def redact(url: str) -> str:
    """The URL without user, password and query; only the scheme where an unescaped password confuses the parts."""
    scheme, found, _ = url.partition("://")
    kind, _, several = scheme.partition("+")
    try:
        if several in PORTS and kind in SCHEMES:
            return parse_several(url).name
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return f"{scheme}://***" if found else "***"
    if parts.scheme not in SCHEMES or "@" in parts.path + parts.query + parts.fragment:
        return f"{parts.scheme}://***" if parts.scheme in SCHEMES else "***"
    user = "***@" if "@" in parts.netloc else ""
    return printable(f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}")


def printable(text: str) -> str:
    return "".join([char if char.isprintable() else quote(char, errors="replace") for char in text])
