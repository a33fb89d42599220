-- repair: checks one group, or dead letters, at one moment, and repairs what their data allow: what a group holds is decided
-- by its order and body, and the schedule follows from them.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] failures hash; KEYS[4] clock string; KEYS[5] dispatch list
-- KEYS[6] policy hash; KEYS[7] memory hash; KEYS[8] paused set; KEYS[9] dead zset; KEYS[10] letters hash
-- KEYS[11] stats hash
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] group    "" for none
-- ARGV[3] words    JSON [[member of the order, ...], [id in the body, ...], [dead letter, ...]]: to be checked too; at
--                  most 100 in all
-- ARGV[4] dry_run  "1": only say what is broken; "0": repair it too
-- ARGV[5] now_us   "" for the server's time
-- RETURN  [messages in order or -1 for a wrong type, messages in body, how many members and ids were looked at (fewer
--         than asked for where records are large), [[what, name, detail, "1" if it was repaired], ...]]
local schedule, leases, failures, clock_key, dispatch, policy_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local memory, paused, dead, letters, stats = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local prefix, group, words, dry_run, now = ARGV[1], ARGV[2], cjson.decode(ARGV[3]), ARGV[4] == '1', tonumber(ARGV[5])
local call, pcall, fmt, sub = redis.call, redis.pcall, string.format, string.sub
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
if not now then local t = call('TIME'); now = t[1] * 1000000 + t[2] end
local policy = call('HMGET', policy_key, 'mark_us', 'window_us', 'sequence', 'gap_us', 'on_gap')
local found, order, body = {}, prefix .. 'order:' .. group, prefix .. 'body:' .. group
local function tell(what, name, detail, can_repair) -- whether to repair it
  can_repair = not dry_run and can_repair ~= false
  found[#found + 1] = {what, name, detail or '', can_repair and '1' or '0'}
  return can_repair
end
--+ memory
--+ gate
--+ set_aside
--+ repair/members
--+ clock
local ticks = call('GET', clock_key) or '0'
local clock = read_clock(ticks)
if not clock then clock = now; if tell('clock', clock_key, ticks) then call('SET', clock_key, fmt('%.0f', now)) end end
for _, letter in ipairs(words[3]) do
  local died, is_kept = call('ZSCORE', dead, letter), call('HEXISTS', letters, letter) == 1
  if died and not is_kept and tell('no content', letter, died) then call('ZREM', dead, letter) end
  if is_kept and not died and tell('unlisted', letter) then call('ZADD', dead, fmt('%.0f', now), letter) end
end
if group == '' then return {0, 0, 0, found} end
for _, key in ipairs({order, body}) do
  local size = pcall(key == order and 'ZCARD' or 'HLEN', key)
  if type(size) == 'table' then tell('type', key, '', false); return {-1, 0, 0, found} end
end
check_members(words[1])
check_records(words[2])

local visible, lease, failure = call('ZSCORE', schedule, group), call('HGET', leases, group), call('HGET', failures, group)
local head, at, is_due = call('ZRANGE', order, 0, 0, 'WITHSCORES'), tonumber(visible or 0), false
if not head[1] then
  local what = visible and 'empty' or lease and 'lease' or failure and 'failure'
  if what and tell(what, group) then
    call('ZREM', schedule, group); call('HDEL', leases, group); call('HDEL', failures, group)
  end
  return {0, call('HLEN', body), looked, found}
end
local token = lease and tonumber(sub(lease, 1, 16):match('^' .. ('%d'):rep(16) .. '$') or 9e15)
if lease and (at == math.huge or token >= 9e15) then
  if tell(at == math.huge and 'leased and parked' or 'token', group, lease) then call('HDEL', leases, group) end
else ahead = math.max(ahead, token or 0) end
if ahead > clock and tell('ahead', group, fmt('%.0f', ahead), ahead < 9e15) then call('SET', clock_key, fmt('%.0f', ahead)) end

if not visible then is_due = tell('unscheduled', group, failure and 'failed' or '')
elseif at == math.huge and not failure then
  local mark = sequence and policy[5] ~= 'skip' and number_of(marks_of({group}, tonumber(policy[1] or 0))[1])
  if not mark or tonumber(head[2]) <= mark + 1 then is_due = tell('parked', group) end
elseif at >= 9e15 and at < math.huge and call('SISMEMBER', paused, group) == 0 then is_due = tell('paused', group) end
if is_due then
  -- One with a failure may have been parked: it stays so, until somebody resumes it.
  call('ZADD', schedule, not visible and failure and 'inf' or fmt('%.0f', now), group)
  if call('LLEN', dispatch) < 1000 then call('RPUSH', dispatch, group) end
end
return {call('ZCARD', order), call('HLEN', body), looked, found}
