-- ack: removes handled messages of leased groups, and releases those groups whose consumer is
-- done with them.
-- KEYS[1] schedule
-- ARGV[1] words    JSON of seven lists: of each entry its group, token, "1" to release the group,
--                  else the member that its consumer handles next or "0", its watermark now or "",
--                  how many were late, and how many members it has, at most 1000; all members
-- ARGV[2] hint     "1": wake a consumer for released groups; "0": the caller claims next itself
-- ARGV[3] endings  "", or where a history is kept JSON [[what it says of each member, or that and
--                  the last ledger of its steps, ...] of each entry, ...]
-- RETURN  [how many groups are due, but for those released now, and how many that are kept have
--         another head than the next member, position of each entry whose token is not valid, ...]
local schedule = KEYS[1]
local groups, tokens, thens, marks, lates, sizes, members = unpack(cjson.decode(ARGV[1]))
local hint, endings = ARGV[2], ARGV[3]
local generation = ARGV[#ARGV]
--+ prelude
--+ packed_rules
local prefix = sub(schedule, 1, -9)
local leases, failures, dispatch = prefix .. 'leases', prefix .. 'failures', prefix .. 'dispatch'
local stats, memory = prefix .. 'stats', prefix .. 'memory'
local policy_key = prefix .. 'policy'
local policy = call('HMGET', policy_key, 'packed', 'mark_cap')
local packed = policy[1] or NO_RULES
local ends = generation_end(packed, generation)
if not ends then return redis.error_reply('GENERATION ' .. packed:match('^%S*')) end
local now, now_text = time_us()
local history = nil
if endings ~= '' then -- else it pays nothing
--+ history/taken
  history = taken_in(open_history(), cjson.decode(endings))
end
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
--+ memory/remember
local rules = rules_of(packed, ends)
local dedup_us, dedup_cap, mark_us = rules.dedup_us, rules.dedup_cap, rules.mark_us
local mark_cap = tonumber(policy[2] or 0)
local has_numbers = check_memory() > 0
call('LLEN', dispatch)
call('HLEN', stats)
local has_failures = call('HLEN', failures) > 0
local leased = call('HMGET', leases, unpack(groups))
local answer = {call('ZCOUNT', schedule, '-inf', now_text)}
--+ remove
--+ ack/release
local valid, orders = {}, {} -- the groups of others, by position, and the key of each one's order
local cleared, ids, handled, late, from = {}, {}, 0, 0, 1
-- `doubtful`: of entries that may have been carried out before, by an earlier sending.
local sure, doubtful = {}, {}
for i, group in ipairs(groups) do
  local held, size, next_member = leased[i], sizes[i], thens[i]
  if not held or sub(held, 1, 16) ~= tokens[i] then
    answer[#answer + 1] = i
  else
    local order = prefix .. 'order:' .. group
    orders[#orders + 1] = order
    valid[#orders] = i
    if size > 0 then
      local first = #ids
      if history then history.look(group, order, members, from, size) end
      local removed, which = remove(group, members, from, size, ids, order)
      if history then history.add(i, members, from, ids, first, which) end
      handled = handled + removed
      late = late + lates[i]
      if has_failures then cleared[#cleared + 1] = group end
      if marks[i] ~= '' then
        local to = removed == size and sure or doubtful
        local n = #to
        to[n + 1], to[n + 2] = group, marks[i]
      end
      if #next_member > 1 and pcall('ZRANGE', order, 0, 0)[1] ~= next_member then
        answer[1] = answer[1] + 1 -- one before it came, or it is gone
      end
    end
  end
  from = from + size
end

release(groups, thens, valid, orders, hint, has_numbers and retire)
if #cleared > 0 then call('HDEL', failures, unpack(cleared)) end
remember_ids(ids, dedup_us, dedup_cap)
remember_marks(sure, mark_us, mark_cap)
remember_marks(keep_highest(doubtful, mark_us), mark_us, mark_cap)
if history then history.keep() end
if handled > 0 then pcall('HINCRBY', stats, 'handled', handled) end
if late > 0 then pcall('HINCRBY', stats, 'late', late) end
return answer
