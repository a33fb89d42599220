-- claim: leases due groups of one shard, longest due first, and reads their first messages that
-- may be handled now.
-- KEYS[1] schedule
-- ARGV[1] owner        who asks, any text
-- ARGV[2] lease_ms     ARGV[3] max_groups   ARGV[4] max_messages
-- ARGV[5] max_bytes    of records, and 40 for each; one message always fits
-- ARGV[6] ahead        "1": the caller still works on other groups; it gets none whose lease
--                      expired
-- ARGV[7] alone        "", or of a caller that leaves half of what is due to others and its next
--                      claim: how many messages it takes of a group that is due alone, at least
-- ARGV[8] failures     "1": the caller wants the failures of the groups that it gets
-- ARGV[9] only         "" or the only group that the caller wants, if it is due; hints stay then
-- ARGV[10] suspects    "" or, of a caller with many worker slots: how many suspects it takes, "-"
--                      front if it works on one; no group gets more than max_messages / max_groups
-- RETURN  idle: [now_us, next visible-at in us or "", groups, parked or paused groups]; while an
--         outage holds the shard back, no time before its next probe
-- RETURN  else: [now_us, token, JSON [[group, owner whose lease expired or "", watermark or "",
--         what becomes of a late message, [member, ...], "1"], ...], [record, ...], "1" if more was
--         due, "p" for a probe]; where scores are not all stamps (flag A) [member, score, ...], "2"
-- RETURN  behind it, only where there are such, "" before the next: JSON of groups it halted:
--         [group, until us or "" if parked, watermark or "", score and id of its head] behind a
--         missing number, [group, error] whose order is no zset; JSON [[position of a group,
--         failure], ...]
-- A due group that has a lease is a suspect: its consumer may have died of it. It is claimed with
-- one message, and alone or among few suspects, so that what kills a consumer is not blamed on its
-- neighbours. If its lease says "1" (it was alone, or a suspect then) its head's attempts go up,
-- and a caller with many slots takes it beside no other suspect. One that such a caller leaves goes
-- behind what is due. A group whose head may not be handled yet is deferred here only. While
-- an outage holds the shard back, one message is given once its probe is due, to a caller that
-- works on no other groups.
local schedule = KEYS[1]
local owner, lease_ms = ARGV[1], tonumber(ARGV[2])
local max_groups, room, max_bytes = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local is_ahead, alone = ARGV[6] == '1', tonumber(ARGV[7])
local told_too, only = ARGV[8] == '1', ARGV[9]
local suspects, has_suspect = tonumber((ARGV[10]:gsub('-', ''))), ARGV[10]:find('-', 1, true)
local generation = ARGV[#ARGV]
--+ prelude
local visible_at = only ~= '' and tonumber(call('ZSCORE', schedule, only) or 'nan')
--+ rights
--+ packed_rules
local prefix = sub(schedule, 1, -9)
local leases, failures, clock_key = prefix .. 'leases', prefix .. 'failures', prefix .. 'clock'
local dispatch, stats, memory = prefix .. 'dispatch', prefix .. 'stats', prefix .. 'memory'
local policy_key, paused = prefix .. 'policy', prefix .. 'paused'
local policy = call('HMGET', policy_key, 'packed', 'paused', 'probe_us')
local packed = policy[1] or NO_RULES
local ends = generation_end(packed, generation)
if not ends then return redis.error_reply('GENERATION ' .. packed:match('^%S*')) end
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
local now, now_text = time_us()
--+ shard_clock
call('HLEN', failures)
local hints = call('LLEN', dispatch)
local clock = shard_clock()
local probe_us = policy[3] and tonumber(policy[3])
--+ outage/probe
if probe_us and now < probe_us and has_gone_back() then probe_us = now end
local is_held = probe_us and (is_ahead or now < probe_us)
local some_paused = call('SCARD', paused) > 0
local is_paused = policy[2] == '1'
local due = {}
if not is_paused and not is_held then
  if only ~= '' then
    due[1] = visible_at <= now and only or nil
  else
    local most = probe_us and '100' or max_groups + 1
    due = call('ZRANGEBYSCORE', schedule, '-inf', now_text, 'LIMIT', '0', most)
  end
end
--+ claim/idle
if #due == 0 then return idle_reply(is_paused, probe_us, only) end

--+ claim/taking
--+ claim/read
--+ number_of
if probe_us then due, max_groups, room, alone = probe_order(due), 1, 1, nil end
local eighth, left = math.ceil(room / 8), math.min(#due, max_groups)
local each = suspects and math.ceil(room / max_groups)
if alone then
  max_groups, left = half_of(due, max_groups)
  if left == 1 then room, each = math.max(room, alone), each and math.max(room, alone) end
end
local rules = rules_of(packed, ends)
local gate = gate_of(rules, policy_key)
local action, mark_us, unknown = rules.on_late, rules.mark_us, gate.sequence and '#' or ''
local visible = fmt('%.0f', now + lease_ms * 1000)
local token = clock < now and now_text or fmt('%.0f', clock + 1)
local taken = {records = {}, bytes = max_bytes, max_bytes = max_bytes, ids = {}}
taken.is_scored = gate.sequence
local groups, visibles, holders, halted, facts = {}, {}, {}, {}, {last = 0}
local step, passed, left_behind, chosen, held = 8, 0, 0, 0, token .. '0' .. owner

for i, group in ipairs(due) do
  if chosen == max_groups or room <= 0 or taken.bytes <= 0 then break end
  if i > facts.last then
    facts = known_of(due, i, step, mark_us, some_paused)
    step = step * 4
  end
  local place = i - facts.first + 1
  local expired, mark = facts.leased[place], facts.marks[place]
  local is_charged = expired and sub(expired, 17, 17) == '1'
  if expired and not suspects and (is_ahead or chosen > 0) then break end
  if facts.paused[place] == 1 then
    call('ZADD', schedule, 9e15, group)
  elseif expired and suspects and (suspects == 0 or is_charged and has_suspect) then
    call('ZADD', schedule, now_text, group)
    left_behind = left_behind + 1
  else
    local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
    local part = each and math.min(room, each) or part_of(room, left - i + 1, eighth)
    local last = expired and 0 or part - 1
    local range, stride = range_of(order, last, taken.is_scored)
    if range.err then
      park_broken(group, range.err)
      halted[#halted + 1] = {group, range.err}
    elseif #range == 0 then
      forget(group) -- it was deleted by hand
    else
      local head = {order = order, last = last, body = body, range = range, stride = stride}
      head.mark = gate.sequence and number_of(mark)
      head.is_bumped = is_charged
      local count, opens, is_gap = read(taken, gate, head)
      range, stride = head.range, head.stride
      if opens > 0 then
        local text = deferred(group, opens)
        if is_gap then
          halted[#halted + 1] = {group, text, mark or '', range[2], sub(range[1], 17)}
        end
      elseif count == 0 then
        break -- its first record does not fit
      else
        local n = 2 * chosen
        chosen = chosen + 1
        room = room - count
        for j = #range, stride * count + 1, -1 do
          range[j] = nil
        end
        local owner_before = expired and sub(expired, 18) or ''
        groups[chosen] = {group, owner_before, mark or unknown, action, range, texts[stride]}
        visibles[n + 1] = visible
        visibles[n + 2] = group
        holders[n + 1] = group
        holders[n + 2] = expired and token .. '1' .. owner or held
        if expired then
          passed = i
          pcall('HINCRBY', stats, 'expired', 1)
          if not suspects then break end
          suspects, has_suspect = is_charged and 0 or suspects - 1, true
        end
      end
    end
  end
  passed = i
end

if #groups > 0 then
  if #groups == 1 and not is_ahead and not suspects then holders[2] = token .. '1' .. owner end
  call('SET', clock_key, token)
  call('ZADD', schedule, unpack(visibles))
  call('HSET', leases, unpack(holders))
end
local told = halted[1] and cjson.encode(halted)
local more = '0'
if probe_us and #groups > 0 then
  more = begin_probe(token, visible)
elseif only == '' then
  more = more_due(due, passed, #groups, left_behind, hints)
end
local failed = told_too and #groups > 0 and failures_of(groups) or nil
return {now, token, cjson.encode(groups), taken.records, more, told or failed and '', failed}
