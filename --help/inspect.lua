-- inspect: all that decides whether a group moves, at one moment; changes nothing.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] failures hash; KEYS[4] policy hash
-- KEYS[5] memory hash; KEYS[6] paused set
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] group
-- ARGV[3] id       of a message to look at too, "" for none
-- ARGV[4] now_us   "" for the server's time
-- RETURN  [now_us, visible-at or "", lease or "", failure or "", "1" if the group is paused, "1" if
--         the lane is, messages in order or -1 for a wrong type, messages in body or -1, member and
--         score of the head or "", the first 37 bytes of its record, watermark or "", member and
--         score and record of the message with that id or "", "1" if that id was handled lately]
-- rights: refuses a call whose user lacks a right, before anything is written: the server would
-- notice at the command that needs it, in the middle. Asks for each command that may be called
-- behind it, up to where it stands again, in one expression: a loop over their names takes twice as
-- long. Stands first in a script that does not name it. One that does only reads before, where the
-- server itself refuses, or has undone what it wrote. Before Redis 7 there is no such question.
-- Needs: nothing.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = not may('EXISTS', key, key) and 'EXISTS' or not may('HGET', key, key) and 'HGET' or not may('HLEN', key, key) and 'HLEN' or not may('HMGET', key, key) and 'HMGET' or not may('SISMEMBER', key, key) and 'SISMEMBER' or not may('ZCARD', key, key) and 'ZCARD' or not may('ZRANGE', key, key) and 'ZRANGE' or not may('ZSCORE', key, key) and 'ZSCORE' end -- luacheck: no max line length
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks
    .. ' command; nothing was written')
end
local schedule, leases, failures = KEYS[1], KEYS[2], KEYS[3]
local policy_key, memory, paused = KEYS[4], KEYS[5], KEYS[6]
local prefix = ARGV[1]
local group = ARGV[2]
local id = ARGV[3]
local now_us = ARGV[4]
-- prelude: the words that every script uses, and the time. Needs: nothing.
local call, pcall = redis.call, redis.pcall
local sub, fmt = string.sub, string.format

local function time_us(now_us) -- the time that the caller gives; for "" the server's
  if now_us ~= '' then return tonumber(now_us) end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local now = time_us(now_us)
-- marks_of: the watermark of each of some groups, or false. Needs: call, numbers, known.
-- numbers: while a group of a sequence has messages, its watermark is in this hash, which forgets
-- nothing. Needs: prefix.
local numbers = prefix .. 'numbers'
-- known: what stays known of handled messages, in two generations of bounded size each: `seen`
-- (set: group, newline, id) and `marks` (hash: group -> watermark). An entry is known for its
-- window, at most for twice that; past its cap a generation ends early. No key has a TTL. `memory`
-- (hash) has their times. Needs: prefix, memory, now, call.
-- The keys of the generations that may hold something still valid.
local function known(name, window)
  local times = call('HMGET', memory, name .. ':last', name .. ':old')
  local keys = {}
  if window > 0 and times[1] and now - times[1] <= window then
    keys[1] = prefix .. name
  end
  if window > 0 and times[2] and now - times[2] <= window then
    keys[#keys + 1] = prefix .. name .. ':old'
  end
  return keys
end
local function marks_of(groups, window)
  local keys, found = known('marks', window), {}
  if call('EXISTS', numbers) == 1 then
    table.insert(keys, 1, numbers)
  end
  for _, key in ipairs(keys) do
    for i, mark in ipairs(call('HMGET', key, unpack(groups))) do
      found[i] = found[i] or mark
    end
  end
  for i = 1, #groups do
    found[i] = found[i] or false
  end
  return found
end
local policy = call('HMGET', policy_key, 'mark_us', 'dedup_us', 'paused')
local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
local size, length = pcall('ZCARD', order), pcall('HLEN', body)
local head, record = {}, ''
if type(size) == 'table' then
  size = -1
else
  head = call('ZRANGE', order, 0, 0, 'WITHSCORES')
end
if type(length) == 'table' then
  length = -1
end
if length >= 0 and head[1] then
  record = sub(call('HGET', body, sub(head[1], 17)) or '', 1, 37)
end

local member, score, kept, is_known = '', '', '', '0'
if id ~= '' then
  kept = length >= 0 and call('HGET', body, id) or ''
  member = kept ~= '' and sub(kept, 1, 16) .. id or ''
  score = member ~= '' and size >= 0 and call('ZSCORE', order, member) or ''
  for _, name in ipairs(known('seen', tonumber(policy[2] or 0))) do
    if call('SISMEMBER', name, group .. '\n' .. id) == 1 then
      is_known = '1'
    end
  end
end
return {
  fmt('%.0f', now),
  call('ZSCORE', schedule, group) or '',
  call('HGET', leases, group) or '',
  call('HGET', failures, group) or '',
  tostring(call('SISMEMBER', paused, group)),
  policy[3] or '0',
  size,
  length,
  head[1] or '',
  head[2] or '',
  record,
  marks_of({group}, tonumber(policy[1] or 0))[1] or '',
  member,
  score,
  kept,
  is_known,
}
