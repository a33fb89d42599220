-- wake: lets a claim look again at a group that sleeps without a failure: by a rule that may hold
-- no more.
-- ARGV[1] group
-- RETURN  "woken", "due" (nothing to do), "leased", "failed", "paused", or "missing"
local group = ARGV[1]
--+ keys
--+ generation
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
