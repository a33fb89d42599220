-- skip_gap: skips the numbers that are missing before the head of a sequence, and lets the group go
-- on.
-- ARGV[1] group
-- ARGV[2] member   the head the caller saw
-- ARGV[3] old_mark ARGV[4] mark   the watermark the caller saw ("" for none), and the one behind
--                  the gap
-- RETURN  "skipped", "leased", or "changed": nothing was done, look again
local group, member, old_mark, mark = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
--+ keys
--+ generation
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
