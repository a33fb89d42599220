-- resume: lets a parked or waiting group go on at once, with fresh attempts; may first remove its
-- failed head.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] failures hash; KEYS[4] dispatch list
-- KEYS[5] stats hash; KEYS[6] policy hash; KEYS[7] memory hash
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] group
-- ARGV[3] failure  the bytes the caller saw; "" for none. Compared, so that nobody skips what they
--                  did not see
-- ARGV[4] member   of that failure; "" for none
-- ARGV[5] skip     "1": remove the member first
-- ARGV[6] mark     the group's watermark once the member is passed, "" to leave it
-- ARGV[7] now_us   "" for the server's time
-- RETURN  [status, score, record]: "resumed", "due" (nothing to do), "leased", "changed",
--         "missing", "unfailed"; score and record are those of a removed message, else ""
-- rights: refuses a call whose user lacks a right, before anything is written: the server would
-- notice at the command that needs it, in the middle. Asks for each command that may be called
-- behind it, up to where it stands again, in one expression: a loop over their names takes twice as
-- long. Stands first in a script that does not name it. One that does only reads before, where the
-- server itself refuses, or has undone what it wrote. Before Redis 7 there is no such question.
-- Needs: nothing.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = not may('EXISTS', key, key) and 'EXISTS' or not may('HDEL', key, key) and 'HDEL' or not may('HEXISTS', key, key) and 'HEXISTS' or not may('HGET', key, key) and 'HGET' or not may('HINCRBY', key, key) and 'HINCRBY' or not may('HLEN', key, key) and 'HLEN' or not may('HMGET', key, key) and 'HMGET' or not may('HSET', key, key) and 'HSET' or not may('LLEN', key, key) and 'LLEN' or not may('RENAME', key, key) and 'RENAME' or not may('RPUSH', key, key) and 'RPUSH' or not may('SADD', key, key) and 'SADD' or not may('SCARD', key, key) and 'SCARD' or not may('UNLINK', key, key) and 'UNLINK' or not may('ZADD', key, key) and 'ZADD' or not may('ZCARD', key, key) and 'ZCARD' or not may('ZREM', key, key) and 'ZREM' or not may('ZSCORE', key, key) and 'ZSCORE' end -- luacheck: no max line length
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks
    .. ' command; nothing was written')
end
local schedule, leases, failures = KEYS[1], KEYS[2], KEYS[3]
local dispatch, stats, policy_key, memory = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local prefix = ARGV[1]
local group = ARGV[2]
local failure = ARGV[3]
local member = ARGV[4]
local skip = ARGV[5] == '1'
local mark = ARGV[6]
local now_us = ARGV[7]
-- prelude: the words that every script uses, and the time. Needs: nothing.
local call, pcall = redis.call, redis.pcall
local sub, fmt = string.sub, string.format

local function time_us(now_us) -- the time that the caller gives; for "" the server's
  if now_us ~= '' then return tonumber(now_us) end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
local now = time_us(now_us)
local visible = tonumber(call('ZSCORE', schedule, group) or 'nan')
if visible ~= visible then return {'missing', '', ''} end
if call('HEXISTS', leases, group) == 1 and visible < 9e15 then return {'leased', '', ''} end
if (call('HGET', failures, group) or '') ~= failure then return {'changed', '', ''} end
if skip and member == '' then return {'unfailed', '', ''} end
if not skip and visible <= now then return {'due', '', ''} end
if failure == '' and visible ~= math.huge then
  return {'unfailed', '', ''} -- delayed, paused: a claim decides when
end
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
-- remember_ids: keeps the ids of handled messages for their window. Needs: prefix, call, turn.
-- turn: a new generation begins where the last one is over; before adding. Others may have written
-- these times: one that is no number counts as none, since the messages are removed by now, and an
-- error would leave one half of that done. Needs: prefix, memory, now, call, fmt.
local function turn(name, window, cap, size)
  local new, text = prefix .. name, fmt('%.0f', now)
  local old = new .. ':old'
  local times = call('HMGET', memory, name .. ':began', name .. ':last', name .. ':old')
  local began, last = tonumber(times[1] or nil), tonumber(times[2] or nil)
  local ended = tonumber(times[3] or nil)
  if ended and now - ended > window then
    call('UNLINK', old)
    call('HDEL', memory, name .. ':old')
  end
  if began and (now - began > window or call(size, new) >= cap) then
    call('UNLINK', old)
    if call('EXISTS', new) == 1 then
      call('RENAME', new, old)
    end
    call('HSET', memory, name .. ':old', fmt('%.0f', last or now))
    began = nil
  end
  if not began then
    call('HSET', memory, name .. ':began', text)
  end
  call('HSET', memory, name .. ':last', text)
end
local function remember_ids(entries, window, cap) -- group, newline, id of each
  if #entries == 0 or window <= 0 then return end
  turn('seen', window, cap, 'SCARD')
  for from = 1, #entries, 4000 do
    call('SADD', prefix .. 'seen', unpack(entries, from, math.min(from + 3999, #entries)))
  end
end
-- remember_marks: keeps the watermarks of groups, after what they passed is gone. Needs: prefix,
-- call, numbers, turn.
local function add_marks(pairs_, window, cap)
  if #pairs_ == 0 or window <= 0 then return end
  turn('marks', window, cap, 'HLEN')
  for from = 1, #pairs_, 4000 do
    call('HSET', prefix .. 'marks', unpack(pairs_, from, math.min(from + 3999, #pairs_)))
  end
end

local function remember_marks(pairs_, window, cap) -- group, watermark, group, watermark ...
  if not pairs_[2] or string.sub(pairs_[2], 1, 1) ~= '#' then
    add_marks(pairs_, window, cap)
    return
  end
  local ended = {}
  for i = 1, #pairs_, 2 do
    local group, mark = pairs_[i], pairs_[i + 1]
    if call('EXISTS', prefix .. 'order:' .. group) == 1 then
      call('HSET', numbers, group, mark)
    else
      call('HDEL', numbers, group)
      ended[#ended + 1] = group
      ended[#ended + 1] = mark
    end
  end
  add_marks(ended, window, cap)
end
-- retire: the watermark of a group that has no messages any more, whatever took the last, is
-- forgotten in time. Needs: call, numbers, remember_marks.
local function retire(group, window, cap)
  local mark = call('HGET', numbers, group)
  if mark then
    remember_marks({group, mark}, window, cap)
  end
end
-- remove: takes handled messages out of their group, each only where it is still the message that
-- was claimed: an append with "replace" may have put another under its id. Needs: prefix, call,
-- pcall, sub.
local found = {} -- one table for all groups; each uses as much of it as it needs

-- Those of `found` that are still the ones that were claimed.
local function remove_changed(body, members, from, count)
  local records = pcall('HMGET', body, unpack(found, 1, count))
  local removed = 0
  for j = 1, count do
    local id, record = found[j], records[j]
    if record and sub(record, 1, 16) == sub(members[from + j - 1], 1, 16) then
      removed = removed + call('HDEL', body, id)
    end
  end
  return removed
end

-- How many there were; adds group, newline, id of each to `ids`.
local function remove(group, members, from, ids, order)
  local body, count = prefix .. 'body:' .. group, #members - from + 1
  local name, n = group .. '\n', #ids
  for j = 1, count do
    local id = sub(members[from + j - 1], 17)
    found[j] = id
    ids[n + j] = name .. id
  end
  local removed = pcall('ZREM', order, unpack(members, from))
  if type(removed) == 'table' and not removed.err:find('WRONGTYPE') then -- a right is missing
    for j = n + count, n + 1, -1 do
      ids[j] = nil
    end
    return 0
  end
  if removed ~= count then return remove_changed(body, members, from, count) end
  return tonumber(pcall('HDEL', body, unpack(found, 1, count))) or 0
end
local policy = call('HMGET', policy_key, 'dedup_us', 'dedup_cap', 'mark_us', 'mark_cap')
local mark_us, mark_cap = tonumber(policy[3] or 0), tonumber(policy[4] or 0)
check_memory()
call('LLEN', dispatch)
call('HLEN', stats)
call('ZCARD', schedule)

local order, body, id = prefix .. 'order:' .. group, prefix .. 'body:' .. group, sub(member, 17)
local score, record = '', ''
if member ~= '' then
  record = call('HGET', body, id) or ''
  score = call('ZSCORE', order, member) or ''
  if sub(record, 1, 16) ~= sub(member, 1, 16) then
    record = ''
  end
  if skip then
    local ids = {}
    remove(group, {member}, 1, ids, order)
    remember_ids(ids, tonumber(policy[1] or 0), tonumber(policy[2] or 0))
    if mark ~= '' then
      remember_marks({group, mark}, mark_us, mark_cap)
    end
    pcall('HINCRBY', stats, 'skipped', 1)
  elseif record ~= '' then
    call('HSET', body, id, sub(record, 1, 16) .. '0000' .. sub(record, 21))
  end
end
call('HDEL', failures, group)

if call('EXISTS', order) == 0 then
  call('ZREM', schedule, group)
  call('HDEL', leases, group)
  retire(group, mark_us, mark_cap)
elseif visible ~= 9e15 then -- a paused group stays so
  call('ZADD', schedule, fmt('%.0f', now), group)
  if call('LLEN', dispatch) == 0 then
    call('RPUSH', dispatch, group)
  end
end
return {'resumed', skip and score or '', skip and record or ''}
