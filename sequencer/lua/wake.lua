-- wake: lets a claim look again at a group that sleeps without a failure: by a rule that may hold
-- no more.
-- ARGV[1] group
-- RETURN  "woken", "due" (nothing to do), "leased", "failed", "paused", or "missing"
local group = ARGV[1]
--+ keys
--+ generation
--+ memory/remember
--+ go_on
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
local visible = tonumber(call('ZSCORE', schedule, group) or 'nan')
if visible ~= visible then return 'missing' end
if call('HEXISTS', leases, group) == 1 and visible < 9e15 then return 'leased' end
if call('HEXISTS', failures, group) == 1 then return 'failed' end
if visible <= now then return 'due' end
if visible == 9e15 then return 'paused' end
check_memory()
call('LLEN', dispatch)
go_on(group, now_text)
return 'woken'
