-- revise: cancels a pending message, or gives it another time, unless a consumer may have it in
-- hand.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] failures hash; KEYS[4] dispatch list
-- KEYS[5] stats hash; KEYS[6] clock string; KEYS[7] policy hash; KEYS[8] memory hash
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] group
-- ARGV[3] id
-- ARGV[4] score    "" to cancel; else the new score; "due" for that of the new time where it had
--                  that of its old one
-- ARGV[5] due      the new time: us, or "+" and us from now
-- ARGV[6] now_us   "" for the server's time
-- RETURN  "done", "missing", or "leased": a consumer may be handling it
-- ERROR   OOM at maxmemory for a new time (SET is refused, and comes first)
-- rights: refuses a call whose user lacks a right, before anything is written: the server would
-- notice at the command that needs it, in the middle. Asks for each command that may be called
-- behind it, up to where it stands again, in one expression: a loop over their names takes twice as
-- long. Stands first in a script that does not name it. One that does only reads before, where the
-- server itself refuses, or has undone what it wrote. Before Redis 7 there is no such question.
-- Needs: nothing.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = not may('EXISTS', key, key) and 'EXISTS' or not may('GET', key, key) and 'GET' or not may('HDEL', key, key) and 'HDEL' or not may('HEXISTS', key, key) and 'HEXISTS' or not may('HGET', key, key) and 'HGET' or not may('HINCRBY', key, key) and 'HINCRBY' or not may('HLEN', key, key) and 'HLEN' or not may('HMGET', key, key) and 'HMGET' or not may('HSET', key, key) and 'HSET' or not may('LLEN', key, key) and 'LLEN' or not may('RENAME', key, key) and 'RENAME' or not may('RPUSH', key, key) and 'RPUSH' or not may('SCARD', key, key) and 'SCARD' or not may('SET', key, key) and 'SET' or not may('UNLINK', key, key) and 'UNLINK' or not may('ZADD', key, key) and 'ZADD' or not may('ZCARD', key, key) and 'ZCARD' or not may('ZREM', key, key) and 'ZREM' or not may('ZSCORE', key, key) and 'ZSCORE' end -- luacheck: no max line length
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks
    .. ' command; nothing was written')
end
local schedule, leases, failures = KEYS[1], KEYS[2], KEYS[3]
local dispatch, stats, clock_key = KEYS[4], KEYS[5], KEYS[6]
local policy_key, memory = KEYS[7], KEYS[8]
local prefix = ARGV[1]
local group = ARGV[2]
local id = ARGV[3]
local score = ARGV[4]
local due = ARGV[5]
local now_us = ARGV[6]
-- prelude: the words that every script uses, and the time. Needs: nothing.
local call, pcall = redis.call, redis.pcall
local sub, fmt = string.sub, string.format

local function time_us(now_us) -- the time that the caller gives; for "" the server's
  if now_us ~= '' then return tonumber(now_us) end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local now = time_us(now_us)
-- lane_clock: the lane's clock, in us; an error, before the first write, for one that only others
-- can have written. Needs: clock_key, call, read_clock.
-- read_clock: the lane's clock, in us. Needs: nothing.
-- Nil for one that only others can have written: a stamp of it would not have 16 digits.
local function read_clock(text)
  if text:match('^%d+$') and tonumber(text) < 9e15 then return tonumber(text) end
  return nil
end
local function lane_clock()
  local text = call('GET', clock_key) or '0'
  return read_clock(text) or error('CLOCK of the lane reads ' .. text:sub(1, 30))
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
-- remove_pending: takes a pending message out of its group, whoever may hold it; a failure of the
-- group that was about it goes too. Needs: prefix, failures, call, pcall, sub.
-- Its record and score; nil where it is not there, or a right is missing.
local function remove_pending(group, id)
  local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
  local record = pcall('HGET', body, id)
  if type(record) ~= 'string' then return nil end
  local member = sub(record, 1, 16) .. id
  local score = pcall('ZSCORE', order, member)
  local removed = pcall('ZREM', order, member)
  if score and type(removed) == 'table' and not removed.err:find('WRONGTYPE') then
    return nil -- it stays whole
  end
  call('HDEL', body, id)
  local failure = call('HGET', failures, group)
  if failure and failure:find(sub(member, 1, 16), 1, true) then
    call('HDEL', failures, group)
  end
  return record, score
end
local stamp = fmt('%.0f', math.max(lane_clock() + 1, now))
local policy = call('HMGET', policy_key, 'mark_us', 'mark_cap')
local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
local record, held = pcall('HGET', body, id), call('HGET', leases, group)
if type(record) ~= 'string' then return 'missing' end
local flag = sub(record, 21, 21)
local has_due = flag == 'D' or flag == 'T'
local arrived = tonumber(sub(record, 1, 16)) or 0
local was_there = math.max(arrived, has_due and tonumber(sub(record, 22, 37)) or 0)
if held and was_there <= (tonumber(sub(held, 1, 16)) or 0) then return 'leased' end
call('ZCARD', order)
check_memory()

if score == '' then
  call('HDEL', leases, '')
else
  call('SET', clock_key, stamp)
end
local taken, old_score = remove_pending(group, id)
if not taken then
  return redis.error_reply('NOPERM the user has no permissions to take it out; nothing was done')
end
if score == '' then
  pcall('HINCRBY', stats, 'cancelled', 1)
else
  local at = tonumber(due)
  if sub(due, 1, 1) == '+' then
    at = now + at
  end
  local text = fmt('%016.0f', at)
  local is_time = score == 'due' and flag == 'T'
  if is_time then
    score = sub(text, 1, 10) .. '.' .. sub(text, 11)
  elseif score == 'due' then
    score = old_score
  end
  local envelope = sub(record, has_due and 38 or 22)
  call('ZADD', order, score, stamp .. id)
  call('HSET', body, id, stamp .. '0000' .. (is_time and 'T' or 'D') .. text .. envelope)
end
if call('EXISTS', order) == 1 then
  wake(group, now)
else
  call('ZREM', schedule, group)
  call('HDEL', leases, group)
  call('HDEL', failures, group)
  retire(group, tonumber(policy[1] or 0), tonumber(policy[2] or 0))
end
return 'done'
