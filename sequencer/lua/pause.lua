-- pause: holds a group, or the lane, from the next claim on, or lets it go on. It survives
-- everything but its own end.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] paused set; KEYS[4] policy hash
-- KEYS[5] dispatch list
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] group    "" for the whole lane
-- ARGV[3] is_paused "1" or "0"
-- ARGV[4] now_us   "" for the server's time
-- RETURN  1 if that changed something, else 0
local schedule, leases, paused = KEYS[1], KEYS[2], KEYS[3]
local policy_key, dispatch = KEYS[4], KEYS[5]
local prefix = ARGV[1]
local group = ARGV[2]
local is_paused = ARGV[3] == '1'
local now_us = ARGV[4]
--+ prelude
--+ route
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
