-- repair: checks one group, or dead letters, at one moment, and repairs what their data allow: what
-- a group holds is decided by its order and body, and the schedule follows from them.
-- ARGV[1] group    "" for none
-- ARGV[2] words    JSON [[member of the order, ...], [id in the body, ...], [dead letter, ...],
--                  [skipped message, ...]]: to be checked too; at most 100 in all. Without members
--                  and ids all members of a group that has at most 100
-- ARGV[3] dry_run  "1": only say what is broken; "0": repair it too
-- RETURN  [messages in order or -1 for a wrong type, messages in body, how many members, ids and
--         letters were looked at (fewer than asked for where records are large), [[what, name,
--         detail, "1" if it was repaired], ...]]
local group = ARGV[1]
local words = cjson.decode(ARGV[2])
local dry_run = ARGV[3] == '1'
--+ keys
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
local policy = call('HMGET', policy_key, 'mark_us', 'sequence', 'on_gap')
--+ shard_clock
--+ repair/check_messages
--+ repair/check_records
--+ repair/check_schedule
local found = {}
local function tell(what, name, detail, can_repair) -- whether to repair it
  can_repair = not dry_run and can_repair ~= false
  found[#found + 1] = {what, name, detail or '', can_repair and '1' or '0'}
  return can_repair
end

local ticks = call('GET', clock_key) or '0'
local clock = read_clock(ticks)
if not clock then
  clock = now
  if tell('shard clock unreadable', clock_key, ticks) then
    call('SET', clock_key, now_text)
  end
end
local seen = {looked = 0, bytes = 0, ahead = 0, clock = fmt('%.0f', clock)}
check_letters(words[3], seen, tell)
check_skipped(words[4], seen, tell)
if group == '' then return {0, 0, seen.looked, found} end

local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
for _, name in ipairs({order, body}) do
  local size = pcall(name == order and 'ZCARD' or 'HLEN', name)
  if type(size) == 'table' then
    tell('wrong type', name, '', false)
    return {-1, 0, 0, found}
  end
end
local is_whole = #words[1] == 0 and #words[2] == 0 and call('ZCARD', order) <= 100
check_members(order, body, is_whole and call('ZRANGE', order, 0, -1) or words[1], seen, tell)
check_records(group, order, body, words[2], seen, tell)

local visible = tonumber(call('ZSCORE', schedule, group) or nil)
local lease, failure = call('HGET', leases, group), call('HGET', failures, group)
local number = call('ZRANGE', order, 0, 0, 'WITHSCORES')[2]
if not number then
  check_empty(group, visible, lease, failure, tell)
  return {0, call('HLEN', body), seen.looked, found}
end
local token = check_lease(group, visible, lease, tell)
check_ahead(group, clock, math.max(seen.ahead, token), tell)
local gap_parks = policy[2] == '1' and policy[3] ~= 'skip'
local mark_us = gap_parks and tonumber(policy[1] or 0)
if check_visible(group, visible, failure, number, mark_us, tell) then
  -- One with a failure may have been parked: it stays so, until somebody resumes it.
  call('ZADD', schedule, not visible and failure and 'inf' or fmt('%.0f', now), group)
  if call('LLEN', dispatch) < 1000 then call('RPUSH', dispatch, group) end
end
return {call('ZCARD', order), call('HLEN', body), seen.looked, found}
