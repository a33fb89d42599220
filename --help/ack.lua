-- ack: removes handled messages of leased groups, and gives back those groups whose consumer is
-- done with them.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] failures hash; KEYS[4] dispatch list
-- KEYS[5] stats hash; KEYS[6] policy hash; KEYS[7] memory hash; KEYS[8] audit stream
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] words    JSON [[group, token, "1" to release the group or "0", its watermark now or "",
--                  how many were late, member, ...], ...]; members at most 1000 a group
-- ARGV[3] hint     "1": wake a consumer for released groups; "0": the caller claims next itself
-- ARGV[4] now_us   "" for the server's time
-- ARGV[5] length   of the audit stream, about
-- ARGV[6] runs     "" or JSON [[position of the entry from 1, id, score, stamp, began us, ended us,
--                  "1" if it was redriven or "0"], ...]: for the stream, also where the token is
--                  refused
-- RETURN  [how many groups are due, but for those given back now,
--         position from 1 of each entry whose token is not valid, ...]; nothing of those was
--         changed
-- rights: refuses a call whose user lacks a right, before anything is written: the server would
-- notice at the command that needs it, in the middle. Asks for each command that may be called
-- behind it, up to where it stands again, in one expression: a loop over their names takes twice as
-- long. Stands first in a script that does not name it. One that does only reads before, where the
-- server itself refuses, or has undone what it wrote. Before Redis 7 there is no such question.
-- Needs: nothing.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = not may('EXISTS', key, key) and 'EXISTS' or not may('HDEL', key, key) and 'HDEL' or not may('HGET', key, key) and 'HGET' or not may('HINCRBY', key, key) and 'HINCRBY' or not may('HLEN', key, key) and 'HLEN' or not may('HMGET', key, key) and 'HMGET' or not may('HSET', key, key) and 'HSET' or not may('LLEN', key, key) and 'LLEN' or not may('RENAME', key, key) and 'RENAME' or not may('RPUSH', key, key) and 'RPUSH' or not may('SADD', key, key) and 'SADD' or not may('SCARD', key, key) and 'SCARD' or not may('UNLINK', key, key) and 'UNLINK' or not may('XADD', key, key) and 'XADD' or not may('XLEN', key, key) and 'XLEN' or not may('ZADD', key, key) and 'ZADD' or not may('ZCOUNT', key, key) and 'ZCOUNT' or not may('ZREM', key, key) and 'ZREM' end -- luacheck: no max line length
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks
    .. ' command; nothing was written')
end
local schedule, leases, failures = KEYS[1], KEYS[2], KEYS[3]
local dispatch, stats, policy_key = KEYS[4], KEYS[5], KEYS[6]
local memory, audit = KEYS[7], KEYS[8]
local prefix = ARGV[1]
local words = cjson.decode(ARGV[2])
local hint = ARGV[3]
local now_us = ARGV[4]
local length = ARGV[5]
local runs = ARGV[6]
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
-- check_memory: the keys of what is remembered have their types. Asked before the first write: Lua
-- does not roll back. Needs: prefix, memory, call, numbers.
-- numbers: while a group of a sequence has messages, its watermark is in this hash, which forgets
-- nothing. Needs: prefix.
local numbers = prefix .. 'numbers'
local function check_memory()
  call('HLEN', memory)
  call('SCARD', prefix .. 'seen')
  call('HLEN', prefix .. 'marks')
  call('HLEN', numbers)
end
-- remember_ids: keeps the ids of handled messages for their window. Needs: prefix, call, turn.
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
local function remember_ids(entries, window, cap) -- group, newline, id of each
  if #entries == 0 or window <= 0 then return end
  turn('seen', window, cap, 'SCARD')
  for from = 1, #entries, 4000 do
    call('SADD', prefix .. 'seen', unpack(entries, from, math.min(from + 3999, #entries)))
  end
end
-- remember_marks: keeps the watermarks of groups, after what they passed is gone. Needs: prefix,
-- call, numbers, turn.
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
-- remove: takes handled messages out of their group, each only where it is still the message that
-- was claimed: an append with "replace" may have put another under its id. Needs: prefix, call,
-- pcall, sub.
local found = {} -- one table for all groups; each uses as much of it as it needs

-- Those of `found` that are still the ones that were claimed.
local function remove_changed(body, members, from, count)
  local records = pcall('HMGET', body, unpack(found, 1, count))
  local removed = 0
  for j = 1, count do
    local id, record = found[j], records[j]
    if record and sub(record, 1, 16) == sub(members[from + j - 1], 1, 16) then
      removed = removed + call('HDEL', body, id)
    end
  end
  return removed
end

-- How many there were; adds group, newline, id of each to `ids`.
local function remove(group, members, from, ids, order)
  local body, count = prefix .. 'body:' .. group, #members - from + 1
  local name, n = group .. '\n', #ids
  for j = 1, count do
    local id = sub(members[from + j - 1], 17)
    found[j] = id
    ids[n + j] = name .. id
  end
  local removed = pcall('ZREM', order, unpack(members, from))
  if type(removed) == 'table' and not removed.err:find('WRONGTYPE') then -- a right is missing
    for j = n + count, n + 1, -1 do
      ids[j] = nil
    end
    return 0
  end
  if removed ~= count then return remove_changed(body, members, from, count) end
  return tonumber(pcall('HDEL', body, unpack(found, 1, count))) or 0
end
-- keep_highest: keeps an acknowledgement that was on its way for long, and repeated meanwhile, from
-- setting a watermark back. Needs: marks_of.
-- marks_of: the watermark of each of some groups, or false. Needs: call, numbers, known.
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
local function height(mark)
  return tonumber((mark or ''):match('^#?(%S+)') or nil)
end

-- Those of group, watermark, group ... that stand above what is known.
local function keep_highest(pairs_, window)
  local groups, found = {}, {}
  for i = 1, #pairs_, 2 do
    groups[#groups + 1] = pairs_[i]
  end
  for i, mark in ipairs(#groups > 0 and marks_of(groups, window) or {}) do
    if not height(mark) or height(pairs_[2 * i]) > height(mark) then
      found[#found + 1] = groups[i]
      found[#found + 1] = pairs_[2 * i]
    end
  end
  return found
end
-- release: groups that have no messages any more leave the schedule, and those to be given back
-- become due. Needs: schedule, leases, dispatch, now, call, fmt, numbers, retire.
-- retire: the watermark of a group that has no messages any more, whatever took the last, is
-- forgotten in time. Needs: call, numbers, remember_marks.
local function retire(group, window, cap)
  local mark = call('HGET', numbers, group)
  if mark then
    remember_marks({group, mark}, window, cap)
  end
end
-- Groups that are gone; score, group ... of those given back; all that are free now.
local function free_of(valid, orders)
  local left, text = #orders > 0 and call('EXISTS', unpack(orders)) or 0, fmt('%.0f', now)
  local gone, visibles, free = {}, {}, {}
  for i, word in ipairs(valid) do
    local group = word[1]
    if left == 0 or (left < #orders and call('EXISTS', orders[i]) == 0) then
      gone[#gone + 1] = group
      free[#free + 1] = group
    elseif word[3] == '1' then
      visibles[#visibles + 1] = text
      visibles[#visibles + 1] = group
      free[#free + 1] = group
    end
  end
  return gone, visibles, free
end

-- Entries of the call, and the key of each group's order.
local function release(valid, orders, hint, mark_us, mark_cap)
  local gone, visibles, free = free_of(valid, orders)
  if #gone > 0 then
    call('ZREM', schedule, unpack(gone))
  end
  if call('EXISTS', numbers) == 1 then
    for _, group in ipairs(gone) do
      retire(group, mark_us, mark_cap)
    end
  end
  if #visibles > 0 then
    call('ZADD', schedule, unpack(visibles))
    if hint == '1' and call('LLEN', dispatch) == 0 then
      call('RPUSH', dispatch, visibles[2])
    end
  end
  if #free > 0 then
    call('HDEL', leases, unpack(free))
  end
end
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
