-- wake: lets a claim look again at a group that sleeps without a failure: by a rule that may hold
-- no more.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] failures hash; KEYS[4] dispatch list
-- KEYS[5] policy hash; KEYS[6] memory hash
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] group
-- ARGV[3] now_us   "" for the server's time
-- RETURN  "woken", "due" (nothing to do), "leased", "failed", "paused", or "missing"
local schedule, leases, failures = KEYS[1], KEYS[2], KEYS[3]
local dispatch, policy_key, memory = KEYS[4], KEYS[5], KEYS[6]
local prefix = ARGV[1]
local group = ARGV[2]
local now_us = ARGV[3]
--+ prelude
--+ route
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
local now = time_us(now_us)
local visible = tonumber(call('ZSCORE', schedule, group) or 'nan')
if visible ~= visible then return 'missing' end
if call('HEXISTS', leases, group) == 1 and visible < 9e15 then return 'leased' end
if call('HEXISTS', failures, group) == 1 then return 'failed' end
if visible <= now then return 'due' end
if visible == 9e15 then return 'paused' end
local policy = call('HMGET', policy_key, 'mark_us', 'mark_cap')
--+ memory/check_memory
--+ memory/retire
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
