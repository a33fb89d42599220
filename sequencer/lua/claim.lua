-- claim: leases due groups of one lane, longest due first, and reads their first messages that may be handled now.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] clock string; KEYS[4] dispatch list; KEYS[5] stats hash
-- KEYS[6] failures hash; KEYS[7] policy hash; KEYS[8] memory hash; KEYS[9] paused set
-- ARGV[1] prefix       of the lane's keys
-- ARGV[2] owner        who asks, any text
-- ARGV[3] lease_ms     until the lease ends
-- ARGV[4] max_groups
-- ARGV[5] max_messages
-- ARGV[6] max_bytes    of records, and 40 for each; one message always fits
-- ARGV[7] now_us       "" for the server's time
-- ARGV[8] ahead        "1": the caller still works on other groups; it gets none whose lease expired
-- ARGV[9] alone        "" or, of a caller that leaves half of the groups that are due to others and to its next claim, how
--         many messages it takes at least of a group that is due alone
-- RETURN  idle: [now_us, next visible-at in us or "", groups, parked or paused groups]
-- RETURN  else: [now_us, token, JSON [[group, owner whose lease expired or "", watermark or "", what becomes of a late
--         message, [member, ...], 1], ...], [record, ...], "1" if more was due]; where scores are not all stamps
--         (flag A) it is [member, score, ...], 2; the records of all groups stand one after the other
-- RETURN  behind it, only where it halted groups: JSON of [group, until us or "" if it is parked, watermark or "", score and
--         id of its head] for each before whose head a number is missing, [group, error] for each whose order is no zset
-- A due group that still has a lease: it expired. If its consumer held no other group, its head's attempts go up. It is
-- claimed alone with one message: what kills a consumer is not blamed on its neighbours, and shows itself the next time.
-- A group whose head may not be handled yet is put off until then: this is the only place that decides it.
-- How many of several due groups it takes, and how many messages of each: see _share.lua.
local schedule, leases, clock_key, dispatch, stats, failures = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local policy_key, memory, paused = KEYS[7], KEYS[8], KEYS[9]
local prefix, owner, lease_ms, max_groups = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local room, bytes, now, is_ahead = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] == '1'
local call, pcall, fmt, sub, alone = redis.call, redis.pcall, string.format, string.sub, tonumber(ARGV[9])
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
if not now then local t = call('TIME'); now = t[1] * 1000000 + t[2] end
--+ clock
call('HLEN', stats); call('HLEN', failures); local hints, clock = call('LLEN', dispatch), lane_clock()
local policy = call('HMGET', policy_key, 'paused', 'window_us', 'sequence', 'gap_us', 'on_gap', 'on_late', 'mark_us',
  'mark_cap')
local is_paused, some_paused, eighth = policy[1] == '1', call('SCARD', paused) > 0, math.ceil(room / 8)
local due = is_paused and {} or call('ZRANGEBYSCORE', schedule, '-inf', fmt('%.0f', now), 'LIMIT', 0, max_groups + 1)
if #due == 0 then
  call('DEL', dispatch) -- nothing is due, so every hint is stale
  local groups = call('ZCARD', schedule)
  if is_paused then return {now, '', groups, groups} end
  return {now, call('ZRANGE', schedule, 0, 0, 'WITHSCORES')[2] or '', groups, call('ZCOUNT', schedule, 9e15, 'inf')}
end
--+ claim/fair_share
local groups, records, visibles, holders, passed, left = {}, {}, {}, {}, 0, math.min(#due, max_groups)
if alone then max_groups, left = half_of(due, max_groups); room = left == 1 and math.max(room, alone) or room end
--+ memory
--+ gate
--+ claim/read
--+ claim/known_of
local action, visible, token = policy[6] or 'handle', fmt('%.0f', now + lease_ms * 1000), fmt('%.0f', math.max(clock + 1, now))
for i, group in ipairs(due) do
  if #groups == max_groups or room <= 0 or bytes <= 0 then break end
  local expired, mark, is_held_back = facts_of(i)
  if expired and (is_ahead or #groups > 0) then break end
  if is_held_back then call('ZADD', schedule, 9e15, group)
  else
    local count, opens_at = 0, 0
    range_of(prefix .. 'order:' .. group, expired and 0 or part_of(room, left - i + 1, eighth) - 1)
    if range.err then
      call('ZADD', schedule, 'inf', group); call('HDEL', leases, group); halted[#halted + 1] = {group, range.err}
      call('HSET', failures, group, cjson.encode({type = 'Broken', message = range.err}))
    elseif #range == 0 then -- deleted by hand
      call('ZREM', schedule, group); call('HDEL', leases, group); call('HDEL', failures, group)
      retire(group, tonumber(policy[7] or 0), tonumber(policy[8] or 0))
    else count, opens_at = read(prefix .. 'body:' .. group, expired, number_of(mark)) end
    if opens_at > 0 then
      call('ZADD', schedule, opens_at == math.huge and 'inf' or fmt('%.0f', opens_at), group)
      call('HDEL', leases, group); call('HDEL', failures, group) -- a failure would keep an append from waking it
      if opens_at == math.huge then pcall('HINCRBY', stats, 'parked', 1) end
      if gap then halted[#halted + 1] = {group, opens_at < math.huge and fmt('%.0f', opens_at) or '', mark or '', range[2], sub(range[1], 17)} end
    elseif count > 0 then
      local n = 2 * #groups
      room = room - count
      for j = #range, stride * count + 1, -1 do range[j] = nil end
      groups[#groups + 1] = {group, expired and sub(expired, 18) or '', mark or (sequence and '#' or ''), action, range, stride}
      visibles[n + 1], visibles[n + 2], holders[n + 1], holders[n + 2] = visible, group, group, token .. '0' .. owner
    elseif #range > 0 then break end -- its first record does not fit
    if count > 0 and expired then passed = i; pcall('HINCRBY', stats, 'expired', 1); break end
  end
  passed = i
end
if #groups > 0 then
  if #groups == 1 and not is_ahead then holders[2] = token .. '1' .. owner end
  call('SET', clock_key, token)
  call('ZADD', schedule, unpack(visibles)); call('HSET', leases, unpack(holders))
end
local more = #due > passed or (passed > #groups and call('ZCOUNT', schedule, '-inf', fmt('%.0f', now)) > 0)
if not more then call('DEL', dispatch) elseif hints == 0 then call('RPUSH', dispatch, due[#due]) end -- wakes one more
return {now, token, cjson.encode(groups), records, more and '1' or '0', halted[1] and cjson.encode(halted)}
