-- redrive: puts dead letters back into their own places: same group, id, score and stamp, with
-- fresh attempts.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] failures hash; KEYS[4] dispatch list
-- KEYS[5] stats hash; KEYS[6] dead zset; KEYS[7] letters hash; KEYS[8] clock string
-- KEYS[9] policy hash; KEYS[10] memory hash
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] letters  JSON [letter, ...]: 16-digit stamp, group, newline, id; at most 1000
-- ARGV[3] now_us   "" for the server's time
-- RETURN  one character a letter: "+" put back, "-" not there, "=" its id is pending again and it
--         stays
-- ERROR   OOM at maxmemory (SET is refused, and comes first)
-- rights: refuses a call whose user lacks a right, before anything is written: the server would
-- notice at the command that needs it, in the middle. Asks for each command that may be called
-- behind it, up to where it stands again, in one expression: a loop over their names takes twice as
-- long. Stands first in a script that does not name it. One that does only reads before, where the
-- server itself refuses, or has undone what it wrote. Before Redis 7 there is no such question.
-- Needs: nothing.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = not may('EXISTS', key, key) and 'EXISTS' or not may('GET', key, key) and 'GET' or not may('HDEL', key, key) and 'HDEL' or not may('HEXISTS', key, key) and 'HEXISTS' or not may('HGET', key, key) and 'HGET' or not may('HINCRBY', key, key) and 'HINCRBY' or not may('HLEN', key, key) and 'HLEN' or not may('HMGET', key, key) and 'HMGET' or not may('HSETNX', key, key) and 'HSETNX' or not may('LLEN', key, key) and 'LLEN' or not may('RPUSH', key, key) and 'RPUSH' or not may('SCARD', key, key) and 'SCARD' or not may('SET', key, key) and 'SET' or not may('ZADD', key, key) and 'ZADD' or not may('ZCARD', key, key) and 'ZCARD' or not may('ZREM', key, key) and 'ZREM' or not may('ZSCORE', key, key) and 'ZSCORE' end -- luacheck: no max line length
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks
    .. ' command; nothing was written')
end
local schedule, leases, failures = KEYS[1], KEYS[2], KEYS[3]
local dispatch, stats, dead = KEYS[4], KEYS[5], KEYS[6]
local letters, clock_key = KEYS[7], KEYS[8]
local policy_key, memory = KEYS[9], KEYS[10]
local prefix = ARGV[1]
local words = cjson.decode(ARGV[2])
local now_us = ARGV[3]
-- prelude: the words that every script uses, and the time. Needs: nothing.
local call, pcall = redis.call, redis.pcall
local sub, fmt = string.sub, string.format

local function time_us(now_us) -- the time that the caller gives; for "" the server's
  if now_us ~= '' then return tonumber(now_us) end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local now = time_us(now_us)
-- check_memory: the keys of what is remembered have their types. Asked before the first write: Lua
-- does not roll back. Needs: prefix, memory, call, numbers.
-- numbers: while a group of a sequence has messages, its watermark is in this hash, which forgets
-- nothing. Needs: prefix.
local numbers = prefix .. 'numbers'
local function check_memory()
  call('HLEN', memory)
  call('SCARD', prefix .. 'seen')
  call('HLEN', prefix .. 'marks')
  call('HLEN', numbers)
end
-- marks_of: the watermark of each of some groups, or false. Needs: call, numbers, known.
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
-- wake: lets a group be looked at by `at`, or adds it; a claim decides whether its head may be
-- handled then. A group that is leased, backs off, is parked behind a failure, or is paused stays
-- as it is. Needs: schedule, leases, failures, dispatch, now, call, fmt.
-- Us; idle consumers look again within a second, and need no hint before.
local PAUSED, SOON = 9e15, 1100000

local function wake(group, at)
  if at < now then
    at = now
  end
  local visible = tonumber(call('ZSCORE', schedule, group) or 'nan')
  if visible == visible then
    if visible <= at or visible == PAUSED then return end
    if call('HEXISTS', leases, group) == 1 then return end
    if call('HEXISTS', failures, group) == 1 then return end
  end
  call('ZADD', schedule, fmt('%.0f', at), group)
  if at <= now + SOON and call('LLEN', dispatch) < 1000 then
    call('RPUSH', dispatch, group)
  end
end
local mark_us = tonumber(call('HGET', policy_key, 'mark_us') or 0)
check_memory()
call('ZCARD', dead)
call('HLEN', letters)
call('ZCARD', schedule)
call('LLEN', dispatch)
call('HLEN', stats)
for _, letter in ipairs(words) do
  local group = letter:match('^................([^\n]*)\n') or ''
  call('ZCARD', prefix .. 'order:' .. group)
  call('HLEN', prefix .. 'body:' .. group)
end
call('SET', clock_key, call('GET', clock_key) or fmt('%.0f', now))

local function put_back(letter) -- the mark of the reply
  local score, record = (call('HGET', letters, letter) or ''):match('^([^\n]*)\n[^\n]*\n(.*)$')
  if not record then return '-' end
  local cut = letter:find('\n', 1, true)
  local stamp, group, id = sub(letter, 1, 16), sub(letter, 17, cut - 1), sub(letter, cut + 1)
  local flag = sub(record, 21, 21)
  local envelope = sub(record, (flag == 'D' or flag == 'T') and 38 or 22)
  if call('HSETNX', prefix .. 'body:' .. group, id, stamp .. '0000R' .. envelope) == 0 then
    return '='
  end
  local mark = marks_of({group}, mark_us)[1] or ''
  if sub(mark, 1, 1) == '#' then
    call('HSETNX', numbers, group, mark)
  end
  call('ZADD', prefix .. 'order:' .. group, score, stamp .. id)
  call('ZREM', dead, letter)
  call('HDEL', letters, letter)
  wake(group, now)
  return '+'
end

local marks, count = {}, 0
for i, letter in ipairs(words) do
  marks[i] = put_back(letter)
  if marks[i] == '+' then
    count = count + 1
  end
end
if count > 0 then
  pcall('HINCRBY', stats, 'redriven', count)
end
return table.concat(marks)
