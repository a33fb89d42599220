-- skip_gap: skips the numbers that are missing before the head of a sequence, and lets the group go
-- on.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] dispatch list; KEYS[4] stats hash
-- KEYS[5] policy hash; KEYS[6] memory hash
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] group
-- ARGV[3] member   the head the caller saw
-- ARGV[4] old_mark ARGV[5] mark   the watermark the caller saw ("" for none), and the one behind
--                  the gap
-- ARGV[6] now_us   "" for the server's time
-- RETURN  "skipped", "leased", or "changed": nothing was done, look again
local schedule, leases, dispatch = KEYS[1], KEYS[2], KEYS[3]
local stats, policy_key, memory = KEYS[4], KEYS[5], KEYS[6]
local prefix = ARGV[1]
local group = ARGV[2]
local member = ARGV[3]
local old_mark, mark = ARGV[4], ARGV[5]
local now_us = ARGV[6]
--+ prelude
--+ route
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
local now = time_us(now_us)
--+ memory/check_memory
--+ memory/marks_of
--+ memory/remember_marks
local policy = call('HMGET', policy_key, 'mark_us', 'mark_cap')
local mark_us, mark_cap = tonumber(policy[1] or 0), tonumber(policy[2] or 0)
check_memory()
call('LLEN', dispatch)
call('HLEN', stats)
call('ZCARD', schedule)
if call('HEXISTS', leases, group) == 1 then return 'leased' end
local head = call('ZRANGE', prefix .. 'order:' .. group, 0, 0)[1]
local known_mark = marks_of({group}, mark_us)[1] or ''
if head ~= member or known_mark ~= old_mark then return 'changed' end

remember_marks({group, mark}, mark_us, mark_cap)
pcall('HINCRBY', stats, 'skipped', 1)
if tonumber(call('ZSCORE', schedule, group) or 0) ~= 9e15 then -- a paused group stays so
  call('ZADD', schedule, fmt('%.0f', now), group)
  if call('LLEN', dispatch) == 0 then
    call('RPUSH', dispatch, group)
  end
end
return 'skipped'
