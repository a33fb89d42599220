-- wake: lets a claim look again at a group that sleeps without a failure: by a rule that may hold
-- no more.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] failures hash; KEYS[4] dispatch list
-- KEYS[5] policy hash; KEYS[6] memory hash
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] group
-- ARGV[3] now_us   "" for the server's time
-- RETURN  "woken", "due" (nothing to do), "leased", "failed", "paused", or "missing"
-- rights: refuses a call whose user lacks a right, before anything is written: the server would
-- notice at the command that needs it, in the middle. Asks for each command that may be called
-- behind it, up to where it stands again, in one expression: a loop over their names takes twice as
-- long. Stands first in a script that does not name it. One that does only reads before, where the
-- server itself refuses, or has undone what it wrote. Before Redis 7 there is no such question.
-- Needs: nothing.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = not may('EXISTS', key, key) and 'EXISTS' or not may('HDEL', key, key) and 'HDEL' or not may('HEXISTS', key, key) and 'HEXISTS' or not may('HGET', key, key) and 'HGET' or not may('HLEN', key, key) and 'HLEN' or not may('HMGET', key, key) and 'HMGET' or not may('HSET', key, key) and 'HSET' or not may('LLEN', key, key) and 'LLEN' or not may('RENAME', key, key) and 'RENAME' or not may('RPUSH', key, key) and 'RPUSH' or not may('SCARD', key, key) and 'SCARD' or not may('UNLINK', key, key) and 'UNLINK' or not may('ZADD', key, key) and 'ZADD' or not may('ZCARD', key, key) and 'ZCARD' or not may('ZREM', key, key) and 'ZREM' or not may('ZSCORE', key, key) and 'ZSCORE' end -- luacheck: no max line length
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks
    .. ' command; nothing was written')
end
local schedule, leases, failures = KEYS[1], KEYS[2], KEYS[3]
local dispatch, policy_key, memory = KEYS[4], KEYS[5], KEYS[6]
local prefix = ARGV[1]
local group = ARGV[2]
local now_us = ARGV[3]
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
if visible ~= visible then return 'missing' end
if call('HEXISTS', leases, group) == 1 and visible < 9e15 then return 'leased' end
if call('HEXISTS', failures, group) == 1 then return 'failed' end
if visible <= now then return 'due' end
if visible == 9e15 then return 'paused' end
local policy = call('HMGET', policy_key, 'mark_us', 'mark_cap')
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
-- retire: the watermark of a group that has no messages any more, whatever took the last, is
-- forgotten in time. Needs: call, numbers, remember_marks.
-- remember_marks: keeps the watermarks of groups, after what they passed is gone. Needs: prefix,
-- call, numbers, turn.
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
local function retire(group, window, cap)
  local mark = call('HGET', numbers, group)
  if mark then
    remember_marks({group, mark}, window, cap)
  end
end
check_memory()
call('LLEN', dispatch)
call('ZCARD', schedule)
if call('EXISTS', prefix .. 'order:' .. group) == 0 then
  call('ZREM', schedule, group)
  call('HDEL', leases, group)
  retire(group, tonumber(policy[1] or 0), tonumber(policy[2] or 0))
else
  call('ZADD', schedule, fmt('%.0f', now), group)
  if call('LLEN', dispatch) == 0 then
    call('RPUSH', dispatch, group)
  end
end
return 'woken'
