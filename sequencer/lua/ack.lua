-- ack: removes handled messages of leased groups, and gives back those groups whose consumer is done with them.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] failures hash; KEYS[4] dispatch list; KEYS[5] stats hash
-- KEYS[6] policy hash; KEYS[7] memory hash; KEYS[8] audit stream
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] words    JSON [[group, token, "1" to release the group or "0", its watermark now or "", how many were late,
--                  member, ...], ...]; members at most 1000 a group
-- ARGV[3] hint     "1": wake a consumer for released groups; "0": the caller claims next itself
-- ARGV[4] now_us   "" for the server's time
-- ARGV[5] length   of the audit stream, about
-- ARGV[6] runs     "" or JSON [[position of the entry from 1, id, score, stamp, began us, ended us, "1" if it was
--                  redriven or "0"], ...]: for the stream, also where the token is refused
-- RETURN  [how many groups are due, but for those given back now,
--         position from 1 of each entry whose token is not valid, ...]; nothing of those was changed
local schedule, leases, failures, dispatch, stats = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local policy_key, memory, audit, length, runs = KEYS[6], KEYS[7], KEYS[8], ARGV[5], ARGV[6]
local prefix, words, hint, now = ARGV[1], cjson.decode(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local call, pcall, sub, fmt = redis.call, redis.pcall, string.sub, string.format
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
if not now then local t = call('TIME'); now = t[1] * 1000000 + t[2] end
if runs ~= '' then call('XLEN', audit) end
local policy = call('HMGET', policy_key, 'dedup_us', 'dedup_cap', 'mark_us', 'mark_cap')
--+ memory
--+ remove
--+ ack/keep_highest
check_memory(); call('LLEN', dispatch); call('HLEN', stats)
local has_failures = call('HLEN', failures) > 0
local groups, refused = {}, {}
for i, word in ipairs(words) do groups[i] = word[1] end
local leased = call('HMGET', leases, unpack(groups))
local answer = {call('ZCOUNT', schedule, '-inf', fmt('%.0f', now))}
local free, gone, visibles, cleared, marks, ids, handled, late = {}, {}, {}, {}, {}, {}, 0, 0
local doubtful = {} -- like `marks`, of entries that may have been carried out before, by an earlier sending
local orders, valid = {}, {}
for i, word in ipairs(words) do
  local group, held = word[1], leased[i]
  if not held or sub(held, 1, 16) ~= word[2] then
    answer[#answer + 1] = i
    refused[i] = true
  else
    local order = prefix .. 'order:' .. group
    orders[#orders + 1], valid[#valid + 1] = order, word
    if #word > 5 then
      local removed = remove(group, word, 6, ids, order)
      local to = removed == #word - 5 and marks or doubtful
      handled, late = handled + removed, late + word[5]
      cleared[#cleared + 1] = group
      if word[4] ~= '' then to[#to + 1] = group; to[#to + 1] = word[4] end
    end
  end
end
--+ ack/release
if has_failures and #cleared > 0 then call('HDEL', failures, unpack(cleared)) end
remember_ids(ids, tonumber(policy[1] or 0), tonumber(policy[2] or 0))
remember_marks(marks, tonumber(policy[3] or 0), tonumber(policy[4] or 0))
remember_marks(higher(doubtful, tonumber(policy[3] or 0)), tonumber(policy[3] or 0), tonumber(policy[4] or 0))
if handled > 0 then pcall('HINCRBY', stats, 'handled', handled) end
if late > 0 then pcall('HINCRBY', stats, 'late', late) end
for _, run in ipairs(runs ~= '' and cjson.decode(runs) or {}) do
  local word = words[run[1]]
  call('XADD', audit, 'MAXLEN', '~', length, '*', 'group', word[1], 'id', run[2], 'score', run[3], 'stamp', run[4],
    'token', word[2], 'began', run[5], 'ended', run[6], 'redriven', run[7], 'refused', refused[run[1]] and '1' or '0')
end
return answer
