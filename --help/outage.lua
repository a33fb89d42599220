-- outage: ends the outage that holds a lane back, or lets it be probed now.
-- KEYS[1] policy hash; KEYS[2] outage hash; KEYS[3] dispatch list
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] action   "close": what was given to a probe ran to its end; "probe": the next claim is one
-- ARGV[3] token    of the probe, which to "close" is any of this outage, as one may take longer
--                  than its lease; "" for a person who asks for a probe
-- ARGV[4] now_us   "" for the server's time
-- RETURN  [status, now_us, us since when, how many probes failed, last failure]: "closed",
--         "probing", "none" where nothing holds the lane back, "other" for a token of no probe; of
--         those two nothing was changed
-- rights: refuses a call whose user lacks a right, before anything is written: the server would
-- notice at the command that needs it, in the middle. Asks for each command that may be called
-- behind it, up to where it stands again, in one expression: a loop over their names takes twice as
-- long. Stands first in a script that does not name it. One that does only reads before, where the
-- server itself refuses, or has undone what it wrote. Before Redis 7 there is no such question.
-- Needs: nothing.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = not may('DEL', key, key) and 'DEL' or not may('HDEL', key, key) and 'HDEL' or not may('HGET', key, key) and 'HGET' or not may('HMGET', key, key) and 'HMGET' or not may('HSET', key, key) and 'HSET' or not may('LLEN', key, key) and 'LLEN' or not may('RPUSH', key, key) and 'RPUSH' end -- luacheck: no max line length
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks
    .. ' command; nothing was written')
end
local policy_key, outage, dispatch = KEYS[1], KEYS[2], KEYS[3]
local prefix = ARGV[1]
local action = ARGV[2]
local token = ARGV[3]
local now_us = ARGV[4]
-- prelude: the words that every script uses, and the time. Needs: nothing.
local call, pcall = redis.call, redis.pcall
local sub, fmt = string.sub, string.format

local function time_us(now_us) -- the time that the caller gives; for "" the server's
  if now_us ~= '' then return tonumber(now_us) end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
call('HDEL', policy_key, '') -- changes nothing; a first write that is allowed at maxmemory
local now = time_us(now_us)
call('LLEN', dispatch)
local kept = call('HMGET', outage, 'since_us', 'probes', 'failure', 'opened_us', 'token')
local said = {fmt('%.0f', now), kept[1] or '', kept[2] or '0', kept[3] or ''}
if not call('HGET', policy_key, 'probe_us') then return {'none', unpack(said)} end
if action == 'close' then
  if tonumber(token) < tonumber(kept[4] or 0) then return {'other', unpack(said)} end
  call('HDEL', policy_key, 'probe_us')
  call('DEL', outage)
else
  if token ~= '' and token ~= kept[5] then return {'other', unpack(said)} end
  call('HSET', policy_key, 'probe_us', fmt('%.0f', now))
  call('HDEL', outage, 'token')
end
if call('LLEN', dispatch) == 0 then
  call('RPUSH', dispatch, '') -- a consumer looks at once
end
return {action == 'close' and 'closed' or 'probing', unpack(said)}
