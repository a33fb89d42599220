-- renew: prolongs the leases of groups whose handler still runs.
-- KEYS[1] schedule zset; KEYS[2] leases hash
-- ARGV[1] words      JSON [[group, token], ...]
-- ARGV[2] lease_ms   from now on
-- ARGV[3] now_us     "" for the server's time
-- RETURN  [position from 1 of each entry whose token is not valid, ...]; nothing of those was
--         changed
-- rights: refuses a call whose user lacks a right, before anything is written: the server would
-- notice at the command that needs it, in the middle. Asks for each command that may be called
-- behind it, up to where it stands again, in one expression: a loop over their names takes twice as
-- long. Stands first in a script that does not name it. One that does only reads before, where the
-- server itself refuses, or has undone what it wrote. Before Redis 7 there is no such question.
-- Needs: nothing.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = not may('HDEL', key, key) and 'HDEL' or not may('HMGET', key, key) and 'HMGET' or not may('ZADD', key, key) and 'ZADD' end -- luacheck: no max line length
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks
    .. ' command; nothing was written')
end
local schedule, leases = KEYS[1], KEYS[2]
local words = cjson.decode(ARGV[1])
local lease_ms = tonumber(ARGV[2])
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
local visible = fmt('%.0f', now + lease_ms * 1000)
local groups, stale = {}, {}
for i, word in ipairs(words) do
  groups[i] = word[1]
end
local leased = call('HMGET', leases, unpack(groups))
for i, word in ipairs(words) do
  local held = leased[i]
  if held and sub(held, 1, 16) == word[2] then
    call('ZADD', schedule, 'XX', visible, word[1])
  else
    stale[#stale + 1] = i
  end
end
return stale
