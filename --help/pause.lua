-- pause: holds a group, or the lane, from the next claim on, or lets it go on. It survives
-- everything but its own end.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] paused set; KEYS[4] policy hash
-- KEYS[5] dispatch list
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] group    "" for the whole lane
-- ARGV[3] is_paused "1" or "0"
-- ARGV[4] now_us   "" for the server's time
-- RETURN  1 if that changed something, else 0
-- rights: refuses a call whose user lacks a right, before anything is written: the server would
-- notice at the command that needs it, in the middle. Asks for each command that may be called
-- behind it, up to where it stands again, in one expression: a loop over their names takes twice as
-- long. Stands first in a script that does not name it. One that does only reads before, where the
-- server itself refuses, or has undone what it wrote. Before Redis 7 there is no such question.
-- Needs: nothing.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = not may('HDEL', key, key) and 'HDEL' or not may('HSET', key, key) and 'HSET' or not may('LLEN', key, key) and 'LLEN' or not may('RPUSH', key, key) and 'RPUSH' or not may('SADD', key, key) and 'SADD' or not may('SREM', key, key) and 'SREM' or not may('ZADD', key, key) and 'ZADD' or not may('ZCARD', key, key) and 'ZCARD' or not may('ZSCORE', key, key) and 'ZSCORE' end -- luacheck: no max line length
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks
    .. ' command; nothing was written')
end
local schedule, leases, paused = KEYS[1], KEYS[2], KEYS[3]
local policy_key, dispatch = KEYS[4], KEYS[5]
local group = ARGV[2]
local is_paused = ARGV[3] == '1'
local now_us = ARGV[4]
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
call('LLEN', dispatch)
call('ZCARD', schedule)
local changed
if group == '' and is_paused then
  changed = call('HSET', policy_key, 'paused', '1')
elseif group == '' then
  changed = call('HDEL', policy_key, 'paused')
elseif is_paused then
  changed = call('SADD', paused, group)
else
  changed = call('SREM', paused, group)
  if tonumber(call('ZSCORE', schedule, group) or 0) == 9e15 then
    call('ZADD', schedule, fmt('%.0f', now), group)
  end
end
if not is_paused and call('LLEN', dispatch) == 0 and call('ZCARD', schedule) > 0 then
  call('RPUSH', dispatch, group) -- a consumer looks at once
end
return changed
