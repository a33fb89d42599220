"""The least scripts of scenario `floor`: the keys of the data model, by scripts that check nothing.

Plain commands (`raw`) can't give stamps by the server's clock, nor look at what is due and lease it in one step. That
takes scripts, and what passes through a script becomes Lua's strings and comes back. These three do in that way what
`raw` does, and nothing else: no policy, no id looked for, no token compared, no limit of bytes, nothing undone. So they
show how much of sequencer's time over that of `raw` is due to scripts as such.

They keep the same keys (`tests/process/test_benchmark_floor.py`). A chunk is as large as in `append_many`, a claim as
large as a busy consumer's: whole groups, the longest due first, as far as there is room. One round trip acknowledges a
batch and claims the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

from sequencer.net.link import Link
from sequencer.queue.append_many import CHUNK
from sequencer.settings.options import ClaimLimits
from sequencer.store.envelope import encode_envelope
from sequencer.store.record import padded_owner

from ...load.workload import Planned
from .raw import HINTS, LEASE_US, MAX_ENVELOPE, WIDE, Found, Part

CLOCK = """
local prefix, call, fmt, sub = KEYS[1], redis.call, string.format, string.sub
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local clock = tonumber(call('GET', prefix .. 'clock') or 0)
"""
APPEND = f"""{CLOCK}
local words = cjson.decode(ARGV[1])
local base = math.max(clock, now - 1)
local records, places, groups, entries = {{}}, {{}}, {{}}, {{'NX'}}
call('SET', prefix .. 'clock', fmt('%.0f', base + #words / 2))
for i = 1, #words / 2 do
  local group, id, stamp = words[2 * i - 1], words[2 * i], fmt('%.0f', base + i)
  if not records[group] then records[group], places[group], groups[#groups + 1] = {{}}, {{}}, group end
  local fields, members = records[group], places[group]
  fields[#fields + 1] = id; fields[#fields + 1] = stamp .. '0000A' .. ARGV[1 + i]
  members[#members + 1] = sub(stamp, 1, 10) .. '.' .. sub(stamp, 11); members[#members + 1] = stamp .. id
end
for _, group in ipairs(groups) do
  call('HSET', prefix .. 'body:' .. group, unpack(records[group]))
  call('ZADD', prefix .. 'order:' .. group, unpack(places[group]))
  entries[#entries + 1] = fmt('%.0f', now); entries[#entries + 1] = group
end
call('ZADD', prefix .. 'schedule', unpack(entries))
if call('LLEN', prefix .. 'dispatch') == 0 then
  call('RPUSH', prefix .. 'dispatch', unpack(groups, 1, math.min(#groups, {HINTS})))
end
call('HINCRBY', prefix .. 'stats', 'appended', #words / 2)
"""
CLAIM = f"""{CLOCK}
local due = call('ZRANGEBYSCORE', prefix .. 'schedule', '-inf', fmt('%.0f', now), 'LIMIT', 0, ARGV[1])
if #due == 0 then call('DEL', prefix .. 'dispatch'); return {{'[]', {{}}}} end
local room, token, visible = tonumber(ARGV[2]), fmt('%.0f', math.max(clock + 1, now)), fmt('%.0f', now + ARGV[3])
local groups, records, entries, leases = {{}}, {{}}, {{}}, {{}}
for _, group in ipairs(due) do
  if room == 0 then break end
  local range, ids = call('ZRANGE', prefix .. 'order:' .. group, 0, room - 1), {{}}
  for j = 1, #range do ids[j] = sub(range[j], 17) end
  for _, record in ipairs(call('HMGET', prefix .. 'body:' .. group, unpack(ids))) do records[#records + 1] = record end
  room = room - #ids
  groups[#groups + 1] = {{group, range}}
  entries[#entries + 1] = visible; entries[#entries + 1] = group
  leases[#leases + 1] = group; leases[#leases + 1] = token .. '0' .. ARGV[4]
end
call('SET', prefix .. 'clock', token)
call('ZADD', prefix .. 'schedule', unpack(entries))
call('HSET', prefix .. 'leases', unpack(leases))
if #groups == #due and #due < tonumber(ARGV[1]) then call('DEL', prefix .. 'dispatch') end
return {{cjson.encode(groups), records}}
"""
ACK = f"""{CLOCK}
local gone, entries, handled, marks, groups = {{}}, {{}}, {{}}, {{}}, {{}}
for i, word in ipairs(cjson.decode(ARGV[1])) do
  local group, ids = word[1], {{}}
  for j = 3, #word do
    ids[#ids + 1] = sub(word[j], 17)
    handled[#handled + 1] = group .. '\\n' .. ids[#ids]
  end
  call('ZREM', prefix .. 'order:' .. group, unpack(word, 3))
  call('HDEL', prefix .. 'body:' .. group, unpack(ids))
  groups[i], marks[2 * i - 1], marks[2 * i] = group, group, word[2]
  if call('EXISTS', prefix .. 'order:' .. group) == 0 then gone[#gone + 1] = group
  else entries[#entries + 1] = fmt('%.0f', now); entries[#entries + 1] = group end
end
if #gone > 0 then call('ZREM', prefix .. 'schedule', unpack(gone)) end
if #entries > 0 then call('ZADD', prefix .. 'schedule', unpack(entries)) end
local time = fmt('%.0f', now)
call('HDEL', prefix .. 'leases', unpack(groups))
call('SADD', prefix .. 'dedup', unpack(handled))
if call('HLEN', prefix .. 'memory') == 0 then
  call('HSET', prefix .. 'memory', 'dedup:began', time, 'watermarks:began', time)
  call('HSET', prefix .. 'watermarks', '{WIDE[0]}', '{WIDE[1]}')
end
call('HSET', prefix .. 'watermarks', unpack(marks))
call('HSET', prefix .. 'memory', 'dedup:last', time, 'watermarks:last', time)
call('HINCRBY', prefix .. 'stats', 'handled', #handled)
"""


class Scripts:
    """The three scripts on one connection, for the shard with this prefix."""

    def __init__(self, link: Link, prefix: str) -> None:
        self._link, self._prefix = link, prefix
        self._append, self._claim, self._ack = [link.command("SCRIPT", "LOAD", text) for text in (APPEND, CLAIM, ACK)]

    def append(self, chunks: Iterable[Sequence[Any]]) -> None:
        """What `chunks` made, one call each."""
        for words in chunks:
            self._link.command("EVALSHA", self._append, 1, self._prefix, *words)

    def consume(self, owner: str) -> list[Found]:
        """Everything that is due, in the order in which it was read."""
        return [one for batch in self.batches(owner, ClaimLimits()) for one in batch]

    def batches(self, owner: str, limits: ClaimLimits) -> Iterator[list[Found]]:
        """Each batch while its groups are leased."""
        claim = ("EVALSHA", self._claim, 1, self._prefix, limits.groups, limits.messages, LEASE_US, padded_owner(owner))
        batch = _found(self._link.command(*claim))
        while batch:
            yield batch
            words = orjson.dumps([[one.part.group, *map(bytes.decode, (one.mark(), *one.members))] for one in batch])
            _, answer = self._link.commands([("EVALSHA", self._ack, 1, self._prefix, words), claim])
            batch = _found(answer)


def chunks(messages: Iterable[Planned]) -> list[list[bytes]]:
    """The arguments of each call: words as JSON, then the envelopes."""
    every = list(messages)
    made: list[list[bytes]] = []
    for at in range(0, len(every), CHUNK):
        some = every[at : at + CHUNK]
        words = orjson.dumps([word for message in some for word in (message.group, message.id)])
        made.append([words, *(encode_envelope(message.body(), None, MAX_ENVELOPE) for message in some)])
    return made


def _found(answer: list[Any]) -> list[Found]:
    text, records = answer
    found, at = [], 0
    for group, range_ in orjson.loads(text):
        members = [member.encode() for member in range_]
        ids = [member[16:] for member in range_]
        found.append(Found(Part(group, ids, False), members, records[at : at + len(members)]))
        at += len(members)
    return found
