-- ack: removes handled messages of leased groups, and gives back those groups whose consumer is
-- done with them.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] failures hash; KEYS[4] dispatch list
-- KEYS[5] stats hash; KEYS[6] policy hash; KEYS[7] memory hash; KEYS[8] audit stream
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] words    JSON [[group, token, "1" to release the group, else the member that its consumer
--                  handles next or "0", its watermark now or "", how many were late, member, ...],
--                  ...]; members at most 1000 a group
-- ARGV[3] hint     "1": wake a consumer for released groups; "0": the caller claims next itself
-- ARGV[4] now_us   "" for the server's time
-- ARGV[5] length   of the audit stream, about
-- ARGV[6] runs     "" or JSON [[position of the entry from 1, id, score, stamp, began us, ended us,
--                  "1" if it was redriven or "0"], ...]: for the stream, also where the token is
--                  refused
-- RETURN  [how many groups are due, but for those given back now, and how many that are kept have
--         another head than the member that comes next, position from 1 of each entry whose token
--         is not valid, ...]; nothing of those was changed
local schedule, leases, failures = KEYS[1], KEYS[2], KEYS[3]
local dispatch, stats, policy_key = KEYS[4], KEYS[5], KEYS[6]
local memory, audit = KEYS[7], KEYS[8]
local prefix = ARGV[1]
local words = cjson.decode(ARGV[2])
local hint = ARGV[3]
local now_us = ARGV[4]
local length = ARGV[5]
local runs = ARGV[6]
--+ prelude
--+ route
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
local now = time_us(now_us)
--+ memory/check_memory
--+ memory/remember_ids
--+ memory/remember_marks
--+ remove
--+ ack/keep_highest
--+ ack/release
if runs ~= '' then
  call('XLEN', audit)
end
local policy = call('HMGET', policy_key, 'dedup_us', 'dedup_cap', 'mark_us', 'mark_cap')
local dedup_us, dedup_cap = tonumber(policy[1] or 0), tonumber(policy[2] or 0)
local mark_us, mark_cap = tonumber(policy[3] or 0), tonumber(policy[4] or 0)
check_memory()
call('LLEN', dispatch)
call('HLEN', stats)
local has_failures = call('HLEN', failures) > 0
local groups = {}
for i, word in ipairs(words) do
  groups[i] = word[1]
end
local leased = call('HMGET', leases, unpack(groups))
local answer = {call('ZCOUNT', schedule, '-inf', fmt('%.0f', now))}

local refused = {} -- by position
local valid, orders = {}, {} -- the other entries, and the key of each one's order
local cleared, ids, handled, late = {}, {}, 0, 0
-- `doubtful`: of entries that may have been carried out before, by an earlier sending.
local marks, doubtful = {}, {}
for i, word in ipairs(words) do
  local group, held = word[1], leased[i]
  if not held or sub(held, 1, 16) ~= word[2] then
    answer[#answer + 1] = i
    refused[i] = true
  else
    local order = prefix .. 'order:' .. group
    orders[#orders + 1] = order
    valid[#valid + 1] = word
    if #word > 5 then
      local removed = remove(group, word, 6, ids, order)
      local to = removed == #word - 5 and marks or doubtful
      handled = handled + removed
      late = late + word[5]
      cleared[#cleared + 1] = group
      if word[4] ~= '' then
        to[#to + 1] = group
        to[#to + 1] = word[4]
      end
      if #word[3] > 1 and pcall('ZRANGE', order, 0, 0)[1] ~= word[3] then
        answer[1] = answer[1] + 1 -- one before it came, or it is gone
      end
    end
  end
end

release(valid, orders, hint, mark_us, mark_cap)
if has_failures and #cleared > 0 then
  call('HDEL', failures, unpack(cleared))
end
remember_ids(ids, dedup_us, dedup_cap)
remember_marks(marks, mark_us, mark_cap)
remember_marks(keep_highest(doubtful, mark_us), mark_us, mark_cap)
if handled > 0 then
  pcall('HINCRBY', stats, 'handled', handled)
end
if late > 0 then
  pcall('HINCRBY', stats, 'late', late)
end
for _, run in ipairs(runs ~= '' and cjson.decode(runs) or {}) do
  local position, id, score, stamp, began, ended, redriven = unpack(run)
  local group, token = words[position][1], words[position][2]
  call('XADD', audit, 'MAXLEN', '~', length, '*', 'group', group, 'id', id, 'score', score,
    'stamp', stamp, 'token', token, 'began', began, 'ended', ended, 'redriven', redriven,
    'refused', refused[position] and '1' or '0')
end
return answer
