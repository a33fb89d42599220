-- claim: leases due groups of one lane, longest due first, and reads their first messages that may
-- be handled now.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] clock string; KEYS[4] dispatch list
-- KEYS[5] stats hash; KEYS[6] failures hash; KEYS[7] policy hash; KEYS[8] memory hash
-- KEYS[9] paused set
-- ARGV[1] prefix       of the lane's keys
-- ARGV[2] owner        who asks, any text
-- ARGV[3] lease_ms     until the lease ends
-- ARGV[4] max_groups
-- ARGV[5] max_messages
-- ARGV[6] max_bytes    of records, and 40 for each; one message always fits
-- ARGV[7] now_us       "" for the server's time
-- ARGV[8] ahead        "1": the caller still works on other groups; it gets none whose lease
--                      expired
-- ARGV[9] alone        "" or, of a caller that leaves half of the groups that are due to others and
--                      to its next claim, how
--         many messages it takes at least of a group that is due alone
-- RETURN  idle: [now_us, next visible-at in us or "", groups, parked or paused groups]; while an
--         outage holds the lane back, no time before its next probe
-- RETURN  else: [now_us, token, JSON [[group, owner whose lease expired or "", watermark or "",
--         what becomes of a late message, [member, ...], 1], ...], [record, ...], "1" if more was
--         due, "p" for a probe]; where scores are not all stamps (flag A) it is [member, score, ...], 2; the records
--         of all groups stand one after the other
-- RETURN  behind it, only where it halted groups: JSON of [group, until us or "" if it is parked,
--         watermark or "", score and id of its head] for each before whose head a number is
--         missing, [group, error] for each whose order is no zset
-- A due group that still has a lease: it expired. If its consumer held no other group, its head's
-- attempts go up. It is claimed alone with one message: what kills a consumer is not blamed on its
-- neighbours, and shows itself the next time. A group whose head may not be handled yet is put off
-- until then: this is the only place that decides it. How many of several due groups it takes, and
-- how many messages of each: see parts/claim/fair_share.lua.
-- While an outage holds the lane back nothing is given until its next probe is due, and then one
-- message, a probe; never to a caller that works on other groups.
-- rights: refuses a call whose user lacks a right, before anything is written: the server would
-- notice at the command that needs it, in the middle. Asks for each command that may be called
-- behind it, up to where it stands again, in one expression: a loop over their names takes twice as
-- long. Stands first in a script that does not name it. One that does only reads before, where the
-- server itself refuses, or has undone what it wrote. Before Redis 7 there is no such question.
-- Needs: nothing.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = not may('DEL', key, key) and 'DEL' or not may('EXISTS', key, key) and 'EXISTS' or not may('GET', key, key) and 'GET' or not may('HDEL', key, key) and 'HDEL' or not may('HGET', key, key) and 'HGET' or not may('HINCRBY', key, key) and 'HINCRBY' or not may('HLEN', key, key) and 'HLEN' or not may('HMGET', key, key) and 'HMGET' or not may('HSET', key, key) and 'HSET' or not may('LLEN', key, key) and 'LLEN' or not may('RENAME', key, key) and 'RENAME' or not may('RPUSH', key, key) and 'RPUSH' or not may('SCARD', key, key) and 'SCARD' or not may('SET', key, key) and 'SET' or not may('SMISMEMBER', key, key) and 'SMISMEMBER' or not may('UNLINK', key, key) and 'UNLINK' or not may('ZADD', key, key) and 'ZADD' or not may('ZCARD', key, key) and 'ZCARD' or not may('ZCOUNT', key, key) and 'ZCOUNT' or not may('ZRANGE', key, key) and 'ZRANGE' or not may('ZRANGEBYSCORE', key, key) and 'ZRANGEBYSCORE' or not may('ZREM', key, key) and 'ZREM' end -- luacheck: no max line length
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks
    .. ' command; nothing was written')
end
local schedule, leases, clock_key = KEYS[1], KEYS[2], KEYS[3]
local dispatch, stats, failures = KEYS[4], KEYS[5], KEYS[6]
local policy_key, memory, paused = KEYS[7], KEYS[8], KEYS[9]
local prefix, owner, lease_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local max_groups, room, max_bytes = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local now_us, is_ahead, alone = ARGV[7], ARGV[8] == '1', tonumber(ARGV[9])
-- prelude: the words that every script uses, and the time. Needs: nothing.
local call, pcall = redis.call, redis.pcall
local sub, fmt = string.sub, string.format

local function time_us(now_us) -- the time that the caller gives; for "" the server's
  if now_us ~= '' then return tonumber(now_us) end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
local now = time_us(now_us)
-- lane_clock: the lane's clock, in us; an error, before the first write, for one that only others
-- can have written. Needs: clock_key, call, read_clock.
-- read_clock: the lane's clock, in us. Needs: nothing.
-- Nil for one that only others can have written: a stamp of it would not have 16 digits.
local function read_clock(text)
  if text:match('^%d+$') and tonumber(text) < 9e15 then return tonumber(text) end
  return nil
end
local function lane_clock()
  local text = call('GET', clock_key) or '0'
  return read_clock(text) or error('CLOCK of the lane reads ' .. text:sub(1, 30))
end
call('HLEN', stats)
call('HLEN', failures)
local hints, clock = call('LLEN', dispatch), lane_clock()
local policy = call('HMGET', policy_key, 'paused', 'window_us', 'sequence', 'gap_us', 'on_gap',
  'on_late', 'mark_us', 'mark_cap', 'probe_us')
local probe_us = policy[9] and tonumber(policy[9])
local is_held = probe_us and (is_ahead or now < probe_us)
local is_paused, some_paused = policy[1] == '1', call('SCARD', paused) > 0
local due = {}
if not is_paused and not is_held then
  local text, most = fmt('%.0f', now), probe_us and 100 or max_groups + 1
  due = call('ZRANGEBYSCORE', schedule, '-inf', text, 'LIMIT', 0, most)
end
-- idle: the answer where nothing is due. Needs: schedule, dispatch, now, call.
-- `probe_us`: text, when an outage that holds the lane back is probed next; else false.
local function idle_reply(is_paused, probe_us)
  call('DEL', dispatch) -- nothing is due, so every hint is stale
  local count = call('ZCARD', schedule)
  if is_paused then return {now, '', count, count} end
  local next_at = call('ZRANGE', schedule, 0, 0, 'WITHSCORES')[2] or ''
  if probe_us and next_at ~= '' and tonumber(next_at) < tonumber(probe_us) then
    next_at = probe_us
  end
  return {now, next_at, count, call('ZCOUNT', schedule, 9e15, 'inf')}
end
if #due == 0 then return idle_reply(is_paused, policy[9]) end

-- fair_share: how much of what is due a claim takes. Needs: schedule, now, call, fmt.
-- Half of the groups, so that other consumers find some, and the caller's next claim: with all of
-- them in one hand, others are idle. Counted are all that look due; one that is put off then is
-- taken for due once. Returns how many to take, and how many are due; `due` keeps one more than is
-- taken.
local function half_of(due, max_groups)
  local all = #due
  if all > max_groups then
    all = call('ZCOUNT', schedule, '-inf', fmt('%.0f', now))
  end
  local most = math.max(1, math.min(max_groups, math.floor(all / 2)))
  for i = #due, most + 2, -1 do
    due[i] = nil
  end
  return most, all
end

-- Where so many groups are still due, also those left to others, none gets more than its part of
-- the room, an eighth of all of it at most if there are more: one that never ends would let the
-- others wait.
local function part_of(room, due, eighth)
  return math.min(room, due < 8 and math.ceil(room / math.max(1, due)) or eighth)
end
-- known_of: what is known of some of the due groups: of full ones a claim takes few, and a look
-- into a small hash takes the longer the more it holds. Needs: leases, paused, call, marks_of.
-- marks_of: the watermark of each of some groups, or false. Needs: call, numbers, known.
-- numbers: while a group of a sequence has messages, its watermark is in this hash, which forgets
-- nothing. Needs: prefix.
local numbers = prefix .. 'numbers'
-- known: what stays known of handled messages, in two generations of bounded size each: `seen`
-- (set: group, newline, id) and `marks` (hash: group -> watermark). An entry is known for its
-- window, at most for twice that; past its cap a generation ends early. No key has a TTL. `memory`
-- (hash) has their times. Needs: prefix, memory, now, call.
-- The keys of the generations that may hold something still valid.
local function known(name, window)
  local times = call('HMGET', memory, name .. ':last', name .. ':old')
  local keys = {}
  if window > 0 and times[1] and now - times[1] <= window then
    keys[1] = prefix .. name
  end
  if window > 0 and times[2] and now - times[2] <= window then
    keys[#keys + 1] = prefix .. name .. ':old'
  end
  return keys
end
local function marks_of(groups, window)
  local keys, found = known('marks', window), {}
  if call('EXISTS', numbers) == 1 then
    table.insert(keys, 1, numbers)
  end
  for _, key in ipairs(keys) do
    for i, mark in ipairs(call('HMGET', key, unpack(groups))) do
      found[i] = found[i] or mark
    end
  end
  for i = 1, #groups do
    found[i] = found[i] or false
  end
  return found
end
-- Of `count` groups from position `first` on.
local function known_of(due, first, count, mark_us, some_paused)
  local last = math.min(#due, first + count - 1)
  local some = {unpack(due, first, last)}
  return {
    first = first,
    last = last,
    leased = call('HMGET', leases, unpack(some)),
    marks = marks_of(some, mark_us),
    paused = some_paused and call('SMISMEMBER', paused, unpack(some)) or {},
  }
end
-- read: the records of a claimed group, as far as they may be handled now and fit. They are read in
-- growing steps, so that large bodies are not read far past max_bytes. Scores are read with the
-- members only from where a message was seen whose score is not its stamp (flag A): writing them as
-- text takes Redis 7 a fifth of a claim. A claim has one `taken` for all its groups: {records,
-- bytes = how much room is left, max_bytes, is_scored, ids = one table for all reads}. Needs:
-- pcall, sub, opens_at, range_of, bumped.
-- opens_at: from when on a message at the head may be handled. Needs: now, sub.
-- The rules of the policy, as opens_at takes them.
local function gate_of(window_us, is_sequence, gap_us, on_gap)
  return {
    window = tonumber(window_us or 0),
    sequence = is_sequence == '1',
    gap_us = tonumber(gap_us or 0),
    skips = on_gap == 'skip',
  }
end

-- Two values: 0 for now, else us, math.huge for parked at a gap; and whether it waits for a missing
-- number.
local function opens_at(gate, member, score, record, mark)
  local flag, arrived = sub(record, 21, 21), tonumber(sub(member, 1, 16)) or 0
  local at, is_gap = 0, false
  if flag == 'D' or flag == 'T' then
    at = tonumber(sub(record, 22, 37)) or 0
  end
  if gate.window > 0 and flag ~= 'R' then
    at = math.max(at, arrived + gate.window)
  end
  if gate.sequence and flag ~= 'R' and tonumber(score) > mark + 1 then
    local ends = arrived + gate.gap_us
    if now < ends then
      is_gap = ends >= at
      at = math.max(at, ends)
    elseif not gate.skips then
      return math.huge, true
    end
  end
  return at > now and at or 0, is_gap
end
-- bumped: one attempt more: the consumer that held this head alone is gone. Needs: call, sub, fmt.
local function bumped(body, id, record)
  local attempts = math.min((tonumber(sub(record, 17, 20)) or 0) + 1, 9999)
  record = sub(record, 1, 16) .. fmt('%04d', attempts) .. sub(record, 21)
  call('HSET', body, id, record)
  return record
end
-- range_of: the members of a group in order, from its head on. Needs: pcall.
-- A group in hand: [member, ...] where stride is 1, [member, score, ...] where it is 2; or its
-- error.
local function range_of(order, last, is_scored)
  if is_scored then return pcall('ZRANGE', order, 0, last, 'WITHSCORES'), 2 end
  return pcall('ZRANGE', order, 0, last), 1
end
local byte = string.byte

-- `head`: {order, last, body, range, stride, mark, is_bumped}. Appends to the records that were
-- taken; returns how many of this group, and as opens_at does when the head may be handled.
local function read(taken, gate, head)
  local ids, records, left, is_over = taken.ids, taken.records, taken.bytes, false
  local range, stride, mark = head.range, head.stride, head.mark
  local is_gated = gate.window > 0 or gate.sequence
  local is_closer = is_gated or head.is_bumped
  local from, step, total, count = 1, 16, #range / stride, #records
  local first, at, is_gap = count, 0, false
  while from <= total and left > 0 and not is_over do
    -- Of the size of those before.
    local fit = count > 0 and math.ceil(left * count / (taken.max_bytes - left)) or step
    local size = math.min(total - from + 1, step, fit)
    local place = (from - 1) * stride + 1
    for j = 1, size do
      ids[j] = sub(range[place], 17)
      place = place + stride
    end
    local values = pcall('HMGET', head.body, unpack(ids, 1, size))
    for j = 1, size do
      local value = values[j] or ''
      local flag = byte(value, 21)
      if flag ~= 65 or is_closer then -- A
        if flag ~= 65 and not taken.is_scored then
          taken.is_scored = true
          range, stride = range_of(head.order, head.last, true)
          head.range, head.stride = range, stride
        end
        if value ~= '' and (is_gated or (flag ~= 65 and flag ~= 48)) then -- 0
          local here = (from + j - 2) * stride + 1
          at, is_gap = opens_at(gate, range[here], range[here + 1], value, mark)
          if at > 0 then
            is_over = true
            break
          end
          if gate.sequence and flag ~= 82 then -- one that was redriven (R) has passed
            mark = math.max(mark, tonumber(range[here + 1]))
          end
        end
        if head.is_bumped and value ~= '' then
          value = bumped(head.body, ids[j], value)
        end
      end
      left = left - #value - 40
      if left < 0 and count > 0 then
        is_over = true
        break
      end
      count = count + 1
      records[count] = value
    end
    from = from + size
    step = math.min(step * 4, 1000)
  end
  taken.bytes = left
  if count > first then return count - first, 0, false end
  return 0, at, is_gap
end
-- number_of: the number that a sequence has come to, by its watermark. Needs: nothing.
local function number_of(mark)
  return tonumber((mark or '0'):match('%d+')) or 0
end
-- halt: groups that were due and are not taken. Needs: schedule, leases, failures, stats, call,
-- pcall, fmt, retire.
-- retire: the watermark of a group that has no messages any more, whatever took the last, is
-- forgotten in time. Needs: call, numbers, remember_marks.
-- remember_marks: keeps the watermarks of groups, after what they passed is gone. Needs: prefix,
-- call, numbers, turn.
-- turn: a new generation begins where the last one is over; before adding. Others may have written
-- these times: one that is no number counts as none, since the messages are removed by now, and an
-- error would leave one half of that done. Needs: prefix, memory, now, call, fmt.
local function turn(name, window, cap, size)
  local new, text = prefix .. name, fmt('%.0f', now)
  local old = new .. ':old'
  local times = call('HMGET', memory, name .. ':began', name .. ':last', name .. ':old')
  local began, last = tonumber(times[1] or nil), tonumber(times[2] or nil)
  local ended = tonumber(times[3] or nil)
  if ended and now - ended > window then
    call('UNLINK', old)
    call('HDEL', memory, name .. ':old')
  end
  if began and (now - began > window or call(size, new) >= cap) then
    call('UNLINK', old)
    if call('EXISTS', new) == 1 then
      call('RENAME', new, old)
    end
    call('HSET', memory, name .. ':old', fmt('%.0f', last or now))
    began = nil
  end
  if not began then
    call('HSET', memory, name .. ':began', text)
  end
  call('HSET', memory, name .. ':last', text)
end
local function add_marks(pairs_, window, cap)
  if #pairs_ == 0 or window <= 0 then return end
  turn('marks', window, cap, 'HLEN')
  for from = 1, #pairs_, 4000 do
    call('HSET', prefix .. 'marks', unpack(pairs_, from, math.min(from + 3999, #pairs_)))
  end
end

local function remember_marks(pairs_, window, cap) -- group, watermark, group, watermark ...
  if not pairs_[2] or string.sub(pairs_[2], 1, 1) ~= '#' then
    add_marks(pairs_, window, cap)
    return
  end
  local ended = {}
  for i = 1, #pairs_, 2 do
    local group, mark = pairs_[i], pairs_[i + 1]
    if call('EXISTS', prefix .. 'order:' .. group) == 1 then
      call('HSET', numbers, group, mark)
    else
      call('HDEL', numbers, group)
      ended[#ended + 1] = group
      ended[#ended + 1] = mark
    end
  end
  add_marks(ended, window, cap)
end
local function retire(group, window, cap)
  local mark = call('HGET', numbers, group)
  if mark then
    remember_marks({group, mark}, window, cap)
  end
end
local function park_broken(group, error_text) -- whose order is no zset
  call('ZADD', schedule, 'inf', group)
  call('HDEL', leases, group)
  call('HSET', failures, group, cjson.encode({type = 'Broken', message = error_text}))
end

local function forget(group, mark_us, mark_cap) -- one that was deleted by hand
  call('ZREM', schedule, group)
  call('HDEL', leases, group)
  call('HDEL', failures, group)
  retire(group, mark_us, mark_cap)
end

local function put_off(group, at) -- until its head may be handled; what the reply says of that
  local text = at < math.huge and fmt('%.0f', at) or ''
  call('ZADD', schedule, at < math.huge and text or 'inf', group)
  call('HDEL', leases, group)
  call('HDEL', failures, group) -- a failure would keep an append from waking it
  if at == math.huge then
    pcall('HINCRBY', stats, 'parked', 1)
  end
  return text
end
-- probe: what a claim takes while an outage holds the lane back. Needs: call, failures, policy_key,
-- prefix.
-- Those without a failure first: what failed may have failed for a reason of its own.
local function probe_order(due)
  local failed, order = call('HMGET', failures, unpack(due)), {}
  for i, group in ipairs(due) do
    if not failed[i] then
      order[#order + 1] = group
    end
  end
  for i, group in ipairs(due) do
    if failed[i] then
      order[#order + 1] = group
    end
  end
  return order
end

-- Nobody else probes until the lease is over: by then its consumer has answered, or is dead.
local function begin_probe(token, visible)
  call('HSET', policy_key, 'probe_us', visible)
  call('HSET', prefix .. 'outage', 'token', token)
end
if probe_us then
  due, max_groups, room, alone = probe_order(due), 1, 1, nil
end
local eighth, left = math.ceil(room / 8), math.min(#due, max_groups)
if alone then
  max_groups, left = half_of(due, max_groups)
  if left == 1 then
    room = math.max(room, alone)
  end
end
local gate = gate_of(policy[2], policy[3], policy[4], policy[5])
local action = policy[6] or 'handle'
local mark_us, mark_cap = tonumber(policy[7] or 0), tonumber(policy[8] or 0)
local visible = fmt('%.0f', now + lease_ms * 1000)
local token = fmt('%.0f', math.max(clock + 1, now))
local unknown = gate.sequence and '#' or ''
local taken = {records = {}, bytes = max_bytes, max_bytes = max_bytes, ids = {}}
taken.is_scored = gate.sequence
local groups, visibles, holders, halted = {}, {}, {}, {}
local facts, step, passed = {last = 0}, 8, 0

for i, group in ipairs(due) do
  if #groups == max_groups or room <= 0 or taken.bytes <= 0 then break end
  if i > facts.last then
    facts = known_of(due, i, step, mark_us, some_paused)
    step = step * 4
  end
  local place = i - facts.first + 1
  local expired, mark = facts.leased[place], facts.marks[place]
  if expired and (is_ahead or #groups > 0) then break end
  if facts.paused[place] == 1 then
    call('ZADD', schedule, 9e15, group)
  else
    local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
    local last = expired and 0 or part_of(room, left - i + 1, eighth) - 1
    local range, stride = range_of(order, last, taken.is_scored)
    if range.err then
      park_broken(group, range.err)
      halted[#halted + 1] = {group, range.err}
    elseif #range == 0 then
      forget(group, mark_us, mark_cap)
    else
      local head = {order = order, last = last, body = body, range = range, stride = stride}
      head.mark = gate.sequence and number_of(mark)
      head.is_bumped = expired and sub(expired, 17, 17) == '1'
      local count, opens, is_gap = read(taken, gate, head)
      range, stride = head.range, head.stride
      if opens > 0 then
        local text = put_off(group, opens)
        if is_gap then
          halted[#halted + 1] = {group, text, mark or '', range[2], sub(range[1], 17)}
        end
      elseif count == 0 then
        break -- its first record does not fit
      else
        local n = 2 * #groups
        room = room - count
        for j = #range, stride * count + 1, -1 do
          range[j] = nil
        end
        local owner_before = expired and sub(expired, 18) or ''
        groups[#groups + 1] = {group, owner_before, mark or unknown, action, range, stride}
        visibles[n + 1] = visible
        visibles[n + 2] = group
        holders[n + 1] = group
        holders[n + 2] = token .. '0' .. owner
        if expired then
          passed = i
          pcall('HINCRBY', stats, 'expired', 1)
          break
        end
      end
    end
  end
  passed = i
end

if #groups > 0 then
  if #groups == 1 and not is_ahead then
    holders[2] = token .. '1' .. owner
  end
  call('SET', clock_key, token)
  call('ZADD', schedule, unpack(visibles))
  call('HSET', leases, unpack(holders))
end
local told = halted[1] and cjson.encode(halted)
if probe_us and #groups > 0 then
  begin_probe(token, visible)
  call('DEL', dispatch)
  return {now, token, cjson.encode(groups), taken.records, 'p', told}
end
local more = #due > passed
if not more and passed > #groups then
  more = call('ZCOUNT', schedule, '-inf', fmt('%.0f', now)) > 0
end
if not more then
  call('DEL', dispatch)
elseif hints == 0 then
  call('RPUSH', dispatch, due[#due]) -- wakes one more
end
return {now, token, cjson.encode(groups), taken.records, more and '1' or '0', told}
