-- nack: the handler of a leased group's head failed. The group waits, or is parked, with the
-- failure kept; or the message becomes a dead letter or is dropped, and the group goes on.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] failures hash; KEYS[4] stats hash
-- KEYS[5] dispatch list; KEYS[6] policy hash; KEYS[7] memory hash; KEYS[8] outage hash
-- ARGV[1] prefix     of the lane's keys
-- ARGV[2] group      ARGV[3] token (16 digits)   ARGV[4] member
-- ARGV[5] attempts   how often the message has been tried now; set, not added, so that a repeat is
--                    harmless
-- ARGV[6] delay_ms   until the group may be claimed again; "" for the end of trying
-- ARGV[7] ending     "park", "dead" or "drop" at the end of trying, else ""
-- ARGV[8] failure    bytes to keep, without a newline
-- ARGV[9] mark       the group's watermark if the message is passed, "" to leave it
-- ARGV[10] is_late   "1": it is given up because it is late
-- ARGV[11] verdict   "outage": something that all handlers need is not there; "timeout": the handler
--                    took too long; else ""
-- ARGV[12] waits     of an outage, JSON [ms that its group waits at first, at most, ms until the
--                    next probe or ""]; else ""
-- ARGV[13] now_us    "" for the server's time
-- An outage counts no attempt, and `attempts`, `delay_ms`, `ending` and `mark` are not used. But a
-- group's 10th in a row, and those behind it, are failures like others while nothing holds the lane
-- back, if the lane handled something since the first of them: they are the group's own. Its
-- failure begins with how many in a row, and how many messages the lane had handled at the first.
-- RETURN  0 when the token is not valid: nothing was changed; 1
-- RETURN  of an outage, and while one holds the lane back: ["1" if no attempt was counted or "0",
--         ms that the group waits or "", now_us, us since when and us of the next probe or "",
--         "1" if this failure began it or "0"]
-- rights: refuses a call whose user lacks a right, before anything is written: the server would
-- notice at the command that needs it, in the middle. Asks for each command that may be called
-- behind it, up to where it stands again, in one expression: a loop over their names takes twice as
-- long. Stands first in a script that does not name it. One that does only reads before, where the
-- server itself refuses, or has undone what it wrote. Before Redis 7 there is no such question.
-- Needs: nothing.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = not may('EXISTS', key, key) and 'EXISTS' or not may('HDEL', key, key) and 'HDEL' or not may('HGET', key, key) and 'HGET' or not may('HINCRBY', key, key) and 'HINCRBY' or not may('HLEN', key, key) and 'HLEN' or not may('HMGET', key, key) and 'HMGET' or not may('HSET', key, key) and 'HSET' or not may('LLEN', key, key) and 'LLEN' or not may('RENAME', key, key) and 'RENAME' or not may('RPUSH', key, key) and 'RPUSH' or not may('SADD', key, key) and 'SADD' or not may('SCARD', key, key) and 'SCARD' or not may('UNLINK', key, key) and 'UNLINK' or not may('ZADD', key, key) and 'ZADD' or not may('ZCARD', key, key) and 'ZCARD' or not may('ZREM', key, key) and 'ZREM' or not may('ZSCORE', key, key) and 'ZSCORE' end -- luacheck: no max line length
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks
    .. ' command; nothing was written')
end
local schedule, leases, failures = KEYS[1], KEYS[2], KEYS[3]
local stats, dispatch, policy_key, memory = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local outage = KEYS[8]
local prefix = ARGV[1]
local group, token, member = ARGV[2], ARGV[3], ARGV[4]
local attempts = ARGV[5]
local delay_ms = ARGV[6]
local ending = ARGV[7]
local failure = ARGV[8]
local mark = ARGV[9]
local is_late = ARGV[10] == '1'
local verdict = ARGV[11]
local waits = ARGV[12]
local now_us = ARGV[13]
-- prelude: the words that every script uses, and the time. Needs: nothing.
local call, pcall = redis.call, redis.pcall
local sub, fmt = string.sub, string.format

local function time_us(now_us) -- the time that the caller gives; for "" the server's
  if now_us ~= '' then return tonumber(now_us) end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
local held = call('HGET', leases, group)
if not held or sub(held, 1, 16) ~= token then return 0 end
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
-- retire: the watermark of a group that has no messages any more, whatever took the last, is
-- forgotten in time. Needs: call, numbers, remember_marks.
local function retire(group, window, cap)
  local mark = call('HGET', numbers, group)
  if mark then
    remember_marks({group, mark}, window, cap)
  end
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
-- set_aside: keeps a message as a dead letter, under its stamp, group and id: `dead` (zset: letter
-- -> when it died, us) and `letters` (hash: letter -> score, newline, failure as JSON, newline,
-- record). Needs: prefix, now, call, fmt, sub.
local function set_aside(group, member, score, record, failure)
  local letter = sub(member, 1, 16) .. group .. '\n' .. sub(member, 17)
  call('ZADD', prefix .. 'dead', fmt('%.0f', now), letter)
  call('HSET', prefix .. 'letters', letter, score .. '\n' .. failure .. '\n' .. record)
end
-- count: what a failure of an outage counts for. Needs: outage, policy_key, stats, group, failure,
-- now, call, pcall, fmt, sub, opens.
-- opens: counts the failures that may become an outage, until they are enough to hold the lane
-- back: within 10 s at least 5, of at least 3 groups, and more than the messages handled meanwhile.
-- Needs: outage, now, call, fmt.
local WINDOW_US, FAILURES, GROUPS = 10000000, 5, 3

local function is_in(list, word)
  for _, one in ipairs(list) do
    if one == word then return true end
  end
  return false
end

-- Notes this failure; the us since when where it is the one that makes them enough, else nil.
local function opens(group, handled)
  local kept = call('HMGET', outage, 'since_us', 'failures', 'handled', 'groups')
  local since, count, before = tonumber(kept[1] or nil), tonumber(kept[2] or 0), tonumber(kept[3] or 0)
  local groups = {}
  if since and now >= since and now - since <= WINDOW_US then
    groups = cjson.decode(kept[4] or '[]')
  else
    since, count, before = now, 0, handled
  end
  count = count + 1
  if #groups < GROUPS and not is_in(groups, group) then
    groups[#groups + 1] = group
  end
  call('HSET', outage, 'since_us', fmt('%.0f', since), 'failures', count, 'handled', before,
    'groups', cjson.encode(groups))
  if count < FAILURES or #groups < GROUPS or count <= handled - before then return nil end
  return since
end
local IN_A_ROW = 10
local SECOND = 1000000

local function begin_outage(held_back)
  held_back.probe_us = fmt('%.0f', now + SECOND)
  held_back.is_new = true
  call('HSET', policy_key, 'probe_us', held_back.probe_us)
  call('HSET', outage, 'opened_us', fmt('%.0f', now), 'probes', 0, 'failure', failure)
  call('HDEL', outage, 'token')
  pcall('HINCRBY', stats, 'outages', 1)
end

-- `before`: the failure that the group had. Returns for how many ms the group waits, nil where it
-- counts as another failure does; the ms until the next probe, if the handler said so; and the
-- failure to keep.
local function count_outage(held_back, waits, before, handled)
  local first_ms, longest_ms, after_ms = unpack(waits)
  local count, handled_then = (before or ''):match('^{"outages":(%d+),"handled":(%d+),')
  count, handled_then = (tonumber(count) or 0) + 1, tonumber(handled_then) or handled
  if not held_back.probe_us and opens(group, handled) then
    begin_outage(held_back)
  end
  local kept = fmt('{"outages":%d,"handled":%.0f,', count, handled_then) .. sub(failure, 2)
  if not held_back.probe_us and count >= IN_A_ROW and handled > handled_then then
    return nil, nil, kept
  end
  return math.min(longest_ms, first_ms * 2 ^ math.min(count - 1, 30)), after_ms, kept
end

-- The answer to a nack.
local function said_of(held_back, wait_ms)
  return {
    wait_ms and '1' or '0',
    wait_ms and fmt('%.0f', wait_ms) or '',
    fmt('%.0f', now),
    held_back.probe_us and call('HGET', outage, 'since_us') or '',
    held_back.probe_us and fmt('%.0f', held_back.probe_us) or '',
    held_back.is_new and '1' or '0',
  }
end
-- failed_probe: when an outage is probed next. Needs: outage, policy_key, now, call, fmt.
local LONGEST_MS = 5000

-- 1, 2, 4, then 5 s, unless the handler said when; "" where the handler was not run, or failed with
-- something else: at once.
local function failed_probe(verdict, after_ms, failure)
  local wait_ms = 0
  if verdict ~= '' then
    local count = call('HINCRBY', outage, 'probes', 1)
    wait_ms = tonumber(after_ms) or math.min(LONGEST_MS, 1000 * 2 ^ math.min(count - 1, 10))
    call('HSET', outage, 'failure', failure)
  end
  local probe_us = now + wait_ms * 1000
  call('HDEL', outage, 'token')
  call('HSET', policy_key, 'probe_us', fmt('%.0f', probe_us))
  return probe_us
end
local policy = call('HMGET', policy_key, 'dedup_us', 'dedup_cap', 'mark_us', 'mark_cap',
  'probe_us')
local mark_us, mark_cap = tonumber(policy[3] or 0), tonumber(policy[4] or 0)
call('LLEN', dispatch)
local handled = tonumber(call('HGET', stats, 'handled') or 0) or 0
local before = call('HGET', failures, group)
call('ZCARD', schedule)
check_memory()
call('ZCARD', prefix .. 'dead')
call('HLEN', prefix .. 'letters')
local held_back = {probe_us = policy[5], is_new = false}
local wait_ms, after_ms = nil, nil
if verdict == 'outage' then
  wait_ms, after_ms, failure = count_outage(held_back, cjson.decode(waits), before, handled)
end
if wait_ms then
  delay_ms = wait_ms
  ending = ''
end
local is_probe = held_back.probe_us and call('HGET', outage, 'token') == token

local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
local id = sub(member, 17)
local record, score = pcall('HGET', body, id), pcall('ZSCORE', order, member)
if type(record) == 'string' and sub(record, 1, 16) == sub(member, 1, 16) then
  if not wait_ms then
    record = sub(record, 1, 16) .. fmt('%04d', attempts) .. sub(record, 21)
    call('HSET', body, id, record)
  end
else
  record = ''
end

local name, visible = 'failed', fmt('%.0f', now)
if not score then
  name = 'overtaken' -- cancelled or replaced meanwhile: nothing holds the group back
elseif ending == 'dead' or ending == 'drop' then
  local ids = {}
  if ending == 'dead' then
    set_aside(group, member, score, record, failure)
  end
  remove(group, {member}, 1, ids, order)
  remember_ids(ids, tonumber(policy[1] or 0), tonumber(policy[2] or 0))
  if mark ~= '' then
    remember_marks({group, mark}, mark_us, mark_cap)
  end
  name = ending == 'dead' and 'dead' or 'dropped'
  call('HDEL', failures, group)
  if is_late then
    pcall('HINCRBY', stats, 'late', 1)
  end
else
  call('HSET', failures, group, failure)
  if ending == 'park' then
    name = 'parked'
    visible = 'inf'
  else
    visible = fmt('%.0f', now + tonumber(delay_ms) * 1000)
  end
end
if is_probe then
  held_back.probe_us = failed_probe(verdict, after_ms, failure)
  if wait_ms and name == 'failed' then
    visible = fmt('%.0f', now) -- behind all that are due
  end
end

if call('EXISTS', order) == 0 then
  call('ZREM', schedule, group)
  retire(group, mark_us, mark_cap)
else
  call('ZADD', schedule, visible, group)
  if name ~= 'parked' and name ~= 'failed' and call('LLEN', dispatch) == 0 then
    call('RPUSH', dispatch, group)
  end
end
call('HDEL', leases, group)
if name ~= 'failed' then
  pcall('HINCRBY', stats, name, 1)
end
if not is_late then
  pcall('HINCRBY', stats, 'failed', 1)
end
if verdict ~= 'outage' and not held_back.probe_us then return 1 end
return said_of(held_back, wait_ms)
