"""What is registered of the queues of a namespace, against what their shards say and which keys there are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from ..errors import SequencerError, shown
from ..net.link import Link
from ..settings.options import MAX_SHARDS
from ..store.keys import index_key, registry_key, shard_keys
from ..store.registration import INDEX_WORD, Registration, foreign_index, is_index_word, of_shard, registered
from ..store.replies import pairs, scanned
from ..texts.commands import command
from ..texts.words import many, quoted
from ..values.checks import is_name
from ..values.views import Finding
from .server import admin_command, reply_or_error


def check_registrations(
    link: Link, namespace: str, queue: str | None, shards: dict[str, int], *, repair: bool
) -> Iterator[Finding]:
    """What is wrong of one queue, or of all; `shards` gets the number of shards of each. Raises SequencerError."""
    index = index_key(namespace)
    kind, _ = reply_or_error(link, "TYPE", index)
    is_foreign = kind not in (None, b"none", b"hash")
    if is_foreign:
        yield Finding("queues", "problem", foreign_index(index, namespace))
        repair = False  # nothing can be written into it
    words = [] if is_foreign else link.command("HGETALL", index)
    listed = {name.decode("utf-8", "replace"): word for name, word in pairs(words)}
    used = _shards_used(link, namespace)
    for name in sorted({*listed, *used} | ({queue} if queue else set())):
        if queue not in (None, name):
            continue
        word = listed.get(name)
        if not is_name(name):
            text = f"{index} has {shown(name)}, which no queue can be called: lists leave it out"
            yield Finding("queues", "problem", f"{text}; HDEL {index} {quoted(name)}")
            continue
        if word is not None and not is_index_word(word):
            text = f"{index} says {word[:60]!r} of queue {name}, which no client of ours wrote: lists leave it out"
            there = registered(_fields(link, registry_key(namespace, name))) if repair else None
            if there and _is_fixed(link, "HSET", index, name, INDEX_WORD):
                yield Finding("queues", "problem", text, True)
            else:
                yield Finding("queues", "problem", f"{text}; a client that uses it fixes it, or HDEL {index} {name}")
        elif is_foreign:
            pass
        elif word is None and name in used and (there := registered(_fields(link, registry_key(namespace, name)))):
            is_fixed = repair and _is_fixed(link, "HSET", index, name, INDEX_WORD)
            told = "" if is_fixed else f"; to tell it: {_repair(name, namespace)}"
            yield Finding("queues", "problem", f"queue {name} has keys, but {index} does not know it{told}", is_fixed)
        if name in used or name in listed:
            yield from _check_queue(link, namespace, name, used.get(name, 0), shards, repair)


def _repair(queue: str, namespace: str) -> str:
    return command("doctor", queue, namespace=namespace, options=["--repair"])


def _is_fixed(link: Link, *words: object) -> bool:
    """Whether the server took it: one that is full does not, and the rest is to be looked at."""
    return not reply_or_error(link, *words)[1]


def _check_queue(
    link: Link, namespace: str, queue: str, used: int, shards: dict[str, int], repair: bool
) -> Iterator[Finding]:
    key = registry_key(namespace, queue)
    try:
        there = registered(_fields(link, key))
        if there and not there.is_deleted:
            there.packed()  # raises where the policy lacks what scripts read
        copy = of_shard(_fields(link, shard_keys(namespace, queue, 0).policy))
    except SequencerError as error:
        yield Finding("queues", "problem", f"queue {queue}: {key} can't be read ({error})")
        return
    except (ValueError, KeyError) as error:
        text = f"queue {queue}: {key}, or what its first shard says of it, can't be read ({error})"
        yield Finding("queues", "problem", f"{text}; DEL {key} lets a client that uses the queue write it anew")
        return
    if there is None:
        yield from _check_unregistered(link, namespace, queue, copy, used, shards, repair)
        return
    shards[queue] = len(there.tags)
    if there.is_deleted:
        text = f"queue {queue} is being deleted, and that did not come to its end"
        yield Finding("queues", "problem", f"{text}: sequencer delete {queue} --yes")
        return
    if used > len(there.tags):
        yield from _check_unknown_shards(link, namespace, queue, len(there.tags))
    yield from _check_shards(link, namespace, queue, there, repair)


def _check_shards(link: Link, namespace: str, queue: str, there: Registration, repair: bool) -> Iterator[Finding]:
    """Shards whose generation or policy is not what is registered: the next client that uses the queue brings it to
    them.
    """
    for tag in there.tags:
        keys = shard_keys(namespace, queue, tag)
        fields = _fields(link, keys.policy)
        if "generation" not in fields:
            text = f"queue {queue} is registered, but shard {tag} has no policy"
            yield Finding("queues", "warning", f"{text}; the next client that uses the queue brings it")
        elif (fields["generation"], fields.get("version")) != (there.generation, str(there.version)):
            text = f"queue {queue}: shard {tag} has generation {fields['generation']}, version {fields.get('version')}"
            told = f"{text}; registered are {there.generation}, {there.version}"
            yield Finding("queues", "warning", f"{told}; the next client that uses the queue brings it")
        elif wrong := {name: value for name, value in there.policy.items() if fields.get(name) != value}:
            words = ("HSET", keys.policy, *chain.from_iterable(wrong.items()), "packed", there.packed())
            is_fixed = repair and _is_fixed(link, *words)
            said = ", ".join(f"{name} is {shown(fields.get(name))}, registered {shown(wrong[name])}" for name in wrong)
            text = f"queue {queue}: {keys.policy} says another policy than is registered ({said})"
            told = "" if is_fixed else f"; to bring what is registered: {_repair(queue, namespace)}"
            yield Finding("queues", "problem", text + told, is_fixed)
        elif fields.get("packed") != there.packed():
            is_fixed = repair and _is_fixed(link, "HSET", keys.policy, "packed", there.packed())
            text = f"queue {queue}: {keys.policy} has not the field packed that its other fields make"
            told = "" if is_fixed else "; the next client that uses the queue corrects it, or doctor --repair"
            yield Finding("queues", "problem", text + told, is_fixed)


def _check_unknown_shards(link: Link, namespace: str, queue: str, known: int) -> Iterator[Finding]:
    """Shards that are in no table, after another look at all names."""
    groups, messages = Counter[int](), Counter[int]()
    pattern = _pattern(namespace, re.escape(queue))
    for page in _pages_of_names(link, f"{{{namespace}:{queue}:"):
        for match in filter(None, map(pattern.match, page)):
            name, shard = match.string, int(match[2])
            if known <= shard < MAX_SHARDS:
                is_order = name.startswith(shard_keys(namespace, queue, shard).order("").encode())
                groups[shard] += is_order
                messages[shard] += (reply_or_error(link, "ZCARD", name)[0] or 0) if is_order else 0
    for shard in sorted(groups):
        yield _unknown_shard(link, namespace, queue, shard, known, (groups[shard], messages[shard]))


def _unknown_shard(link: Link, namespace: str, queue: str, shard: int, known: int, counts: tuple[int, int]) -> Finding:
    """No client looks at it, and no command but these reaches what lies there. `counts`: its groups and messages."""
    keys, saved = shard_keys(namespace, queue, shard), f"{queue}-shard-{shard}"
    groups, messages = counts
    letters = reply_or_error(link, "ZCARD", keys.dead)[0] or 0
    own = f"redis-cli --scan --pattern '{keys.prefix}*'"
    text = (
        f"queue {queue} is registered with {many(known, 'shard')}, and there is a shard {shard} that nobody reads: "
        f"it holds {many(messages, 'message')} of {many(groups, 'group')}, and {many(letters, 'dead letter')}"
    )
    if groups or letters:
        make = command("configure", saved, namespace=namespace, options=["--on-late", "handle"])
        text += (
            f"; to keep them, as queue {saved}: {make}; {own} | grep -vxF -e '{keys.policy}' -e '{keys.clock}' | "
            'while IFS= read -r key; do redis-cli RENAME "$key" '
            f"'{shard_keys(namespace, saved, 0).prefix}'\"${{key#*\\}}:}}\"; done"
        )
    text += f"; to destroy all that is in this shard: {own} | tr '\\n' '\\0' | xargs -0 redis-cli UNLINK"
    return Finding("queues", "problem", text)


def _check_unregistered(
    link: Link,
    namespace: str,
    queue: str,
    copy: Registration | None,
    used: int,
    shards: dict[str, int],
    repair: bool,
) -> Iterator[Finding]:
    """Of a queue whose registry was lost."""
    if copy and not copy.is_deleted:
        shards[queue] = len(copy.tags)
        text = f"queue {queue} has a policy in its shards, but {registry_key(namespace, queue)} is lost"
        yield Finding("queues", "warning", f"{text}; a client that uses the queue makes it again within a minute")
        return
    if used:
        shards[queue] = used
        if left := _copy_left(link, namespace, queue, used):
            yield _restored(link, namespace, queue, *left, repair)
            return
        text = f"queue {queue} has keys in {many(used, 'shard')}, but neither a registration nor a policy"
        clock = quoted(shard_keys(namespace, queue, 0).clock)
        make = command("append", queue, "/dev/null", namespace=namespace, options=["--shards", str(used)])
        text += ": a program that used it before registers it again, with its policy; where none runs, the policy "
        text += "is lost: stop the consumers, and set it again (sequencer configure) before they start; to register "
        text += f"it: {admin_command(link.endpoint)} DEL {clock} && {make} && {_repair(queue, namespace)}"
        yield Finding("queues", "problem", text)


def _copy_left(link: Link, namespace: str, queue: str, used: int) -> tuple[int, dict[str, str]] | None:
    """Another shard than the first, with its policy, which says what was registered."""
    for shard in range(1, used):
        fields = _fields(link, shard_keys(namespace, queue, shard).policy)
        with suppress(ValueError, KeyError):
            if (copy := of_shard(fields)) and not copy.is_deleted:
                return shard, fields
    return None


def _restored(link: Link, namespace: str, queue: str, shard: int, fields: dict[str, str], repair: bool) -> Finding:
    """Of a queue that only other shards than the first know yet: a client finds it by the first."""
    first = shard_keys(namespace, queue, 0).policy
    is_fixed = repair and _is_fixed(link, "HSET", first, *chain.from_iterable(fields.items()))
    text = f"queue {queue}: {registry_key(namespace, queue)} and {first} are lost, and shard {shard} has a copy"
    told = "" if is_fixed else f"; to bring it there: {_repair(queue, namespace)}"
    return Finding("queues", "problem", text + told, is_fixed)


def _fields(link: Link, key: str) -> dict[str, str]:
    words = [word.decode("utf-8", "replace") for word in link.command("HGETALL", key)]
    return dict(pairs(words))


def _shards_used(link: Link, namespace: str) -> dict[str, int]:
    """Queue -> its number of shards, as far as there are keys of them. Reads every name on the server, in pages.

    A queue has at most MAX_SHARDS: a higher number is another program's.
    """
    pattern = _pattern(namespace, r"[\w.-]+")
    found: dict[str, int] = {}
    for keys in _pages_of_names(link, f"{{{namespace}:"):
        for match in filter(None, map(pattern.match, keys)):
            name, shard = match[1].decode(), int(match[2])
            if shard < MAX_SHARDS:
                found[name] = max(found.get(name, 0), shard + 1)
    return found


def _pattern(namespace: str, queue: str) -> re.Pattern[bytes]:
    """Queue and shard of a key; not of incidents, which a queue may have before it is used: that its pool is down."""
    return re.compile(rf"\{{{re.escape(namespace)}:({queue}):(\d{{1,4}})\}}:(?!alerts\Z)".encode())


def _pages_of_names(link: Link, prefix: str) -> Iterator[list[bytes]]:
    """All keys that begin so; none where the user may not ask."""
    cursor: bytes | None = b"0"
    while cursor is not None:
        page, denied = reply_or_error(link, "SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", 1000)
        if denied:
            return
        cursor, keys = scanned(page)
        yield keys
