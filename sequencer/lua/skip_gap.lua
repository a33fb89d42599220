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
--+ check_keys
--+ memory/known
--+ go_on
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
local mark_us, mark_cap = policy_numbers('mark_us', 'mark_cap')
check_keys()
if call('HEXISTS', leases, group) == 1 then return 'leased' end
local head = call('ZRANGE', prefix .. 'order:' .. group, 0, 0)[1]
local known_mark = marks_of({group}, mark_us)[1] or ''
if head ~= member or known_mark ~= old_mark then return 'changed' end

remember_marks({group, mark}, mark_us, mark_cap)
pcall('HINCRBY', stats, 'skipped', 1)
local is_paused = tonumber(call('ZSCORE', schedule, group) or 0) == 9e15
go_on(group, is_paused and '' or now_text)
return 'skipped'
