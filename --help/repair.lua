-- repair: checks one group, or dead letters, at one moment, and repairs what their data allow: what
-- a group holds is decided by its order and body, and the schedule follows from them.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] failures hash; KEYS[4] clock string
-- KEYS[5] dispatch list; KEYS[6] policy hash; KEYS[7] memory hash; KEYS[8] paused set
-- KEYS[9] dead zset; KEYS[10] letters hash; KEYS[11] stats hash
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] group    "" for none
-- ARGV[3] words    JSON [[member of the order, ...], [id in the body, ...], [dead letter, ...]]: to
--                  be checked too; at most 100 in all
-- ARGV[4] dry_run  "1": only say what is broken; "0": repair it too
-- ARGV[5] now_us   "" for the server's time
-- RETURN  [messages in order or -1 for a wrong type, messages in body, how many members and ids
--         were looked at (fewer than asked for where records are large), [[what, name, detail, "1"
--         if it was repaired], ...]]
-- rights: refuses a call whose user lacks a right, before anything is written: the server would
-- notice at the command that needs it, in the middle. Asks for each command that may be called
-- behind it, up to where it stands again, in one expression: a loop over their names takes twice as
-- long. Stands first in a script that does not name it. One that does only reads before, where the
-- server itself refuses, or has undone what it wrote. Before Redis 7 there is no such question.
-- Needs: nothing.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = not may('EXISTS', key, key) and 'EXISTS' or not may('GET', key, key) and 'GET' or not may('HDEL', key, key) and 'HDEL' or not may('HEXISTS', key, key) and 'HEXISTS' or not may('HGET', key, key) and 'HGET' or not may('HINCRBY', key, key) and 'HINCRBY' or not may('HLEN', key, key) and 'HLEN' or not may('HMGET', key, key) and 'HMGET' or not may('HSET', key, key) and 'HSET' or not may('LLEN', key, key) and 'LLEN' or not may('RPUSH', key, key) and 'RPUSH' or not may('SET', key, key) and 'SET' or not may('SISMEMBER', key, key) and 'SISMEMBER' or not may('ZADD', key, key) and 'ZADD' or not may('ZCARD', key, key) and 'ZCARD' or not may('ZRANGE', key, key) and 'ZRANGE' or not may('ZREM', key, key) and 'ZREM' or not may('ZSCORE', key, key) and 'ZSCORE' end -- luacheck: no max line length
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks
    .. ' command; nothing was written')
end
local schedule, leases, failures = KEYS[1], KEYS[2], KEYS[3]
local clock_key, dispatch, policy_key = KEYS[4], KEYS[5], KEYS[6]
local memory, paused, dead = KEYS[7], KEYS[8], KEYS[9]
local letters, stats = KEYS[10], KEYS[11]
local prefix = ARGV[1]
local group = ARGV[2]
local words = cjson.decode(ARGV[3])
local dry_run = ARGV[4] == '1'
local now_us = ARGV[5]
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
-- read_clock: the lane's clock, in us. Needs: nothing.
-- Nil for one that only others can have written: a stamp of it would not have 16 digits.
local function read_clock(text)
  if text:match('^%d+$') and tonumber(text) < 9e15 then return tonumber(text) end
  return nil
end
-- check_letters: checks dead letters: each has a time and a content. Needs: dead, letters, now,
-- call, fmt.
local function check_letters(names, tell)
  for _, letter in ipairs(names) do
    local died = call('ZSCORE', dead, letter)
    local is_kept = call('HEXISTS', letters, letter) == 1
    if died and not is_kept and tell('no content', letter, died) then
      call('ZREM', dead, letter)
    end
    if is_kept and not died and tell('unlisted', letter) then
      call('ZADD', dead, fmt('%.0f', now), letter)
    end
  end
end
-- check_members: checks members of a group's order against their records. `seen` is that of
-- is_enough, with `ahead`, the latest stamp; `tell` notes what is broken, and says whether to
-- repair it. Needs: call, sub, is_enough.
-- is_enough: counts in `seen` what was looked at, {looked, bytes}; says whether it is enough.
-- Needs: nothing.
local ENOUGH = 2000000 -- bytes

local function is_enough(seen, record)
  seen.looked = seen.looked + 1
  seen.bytes = seen.bytes + #record
  return seen.bytes > ENOUGH
end
local function check_member(order, body, member, score, record, tell)
  local stamp, id = sub(member, 1, 16), sub(member, 17)
  local is_own = stamp:match('^%d+$') and sub(record, 1, 16) == stamp
  local attempts = sub(record, 17, 20):match('^%d%d%d%d$')
  local is_lie = sub(record, 21, 21) == 'A' and tonumber(score) ~= (tonumber(stamp) or 0) / 1e6
  local rest = is_lie and '0' .. sub(record, 22) or sub(record, 21)
  if not is_own and (#record < 22 or call('ZSCORE', order, sub(record, 1, 16) .. id)) then
    if tell('no record', member, score) then
      call('ZREM', order, member)
    end
  elseif not (is_own and attempts) then
    if tell('head', member, sub(record, 1, 20), #record > 21) then
      call('HSET', body, id, stamp .. (attempts or '0000') .. rest)
    end
  elseif is_lie and tell('score', member, score) then
    call('HSET', body, id, sub(record, 1, 20) .. rest)
  end
end

local function check_members(order, body, members, seen, tell)
  for _, member in ipairs(members) do
    local score = call('ZSCORE', order, member)
    local record = score and call('HGET', body, sub(member, 17)) or ''
    if score then
      check_member(order, body, member, score, record, tell)
      seen.ahead = math.max(seen.ahead, tonumber(sub(member, 1, 16)) or 0)
    end
    if is_enough(seen, record) then return end
  end
end
-- check_records: checks records of a group against its order. One without a place becomes a dead
-- letter, so that nothing is lost. Needs: now, stats, call, pcall, sub, fmt, is_enough, set_aside.
-- set_aside: keeps a message as a dead letter, under its stamp, group and id: `dead` (zset: letter
-- -> when it died, us) and `letters` (hash: letter -> score, newline, failure as JSON, newline,
-- record). Needs: prefix, now, call, fmt, sub.
local function set_aside(group, member, score, record, failure)
  local letter = sub(member, 1, 16) .. group .. '\n' .. sub(member, 17)
  call('ZADD', prefix .. 'dead', fmt('%.0f', now), letter)
  call('HSET', prefix .. 'letters', letter, score .. '\n' .. failure .. '\n' .. record)
end
local function give_up(group, body, id, record)
  local stamp = sub(record, 1, 16)
  if #record < 22 or not stamp:match('^%d+$') then
    stamp = fmt('%016.0f', now)
    record = stamp .. '00000' .. record
  end
  local time, member = sub(record, 21, 37):match('^T(%d+)$') or stamp, stamp .. id
  local text = 'its group had no place for it in its order'
  local failure = {
    member = member, id = id, type = 'Broken', message = text, attempt = 0, at = now / 1e6,
  }
  local score = sub(time, 1, 10) .. '.' .. sub(time, 11)
  set_aside(group, member, score, record, cjson.encode(failure))
  call('HDEL', body, id)
  pcall('HINCRBY', stats, 'dead', 1)
end

local function check_records(group, order, body, ids, seen, tell)
  for _, id in ipairs(ids) do
    local record = call('HGET', body, id) or ''
    local stamp = sub(record, 1, 16)
    local is_lost = record ~= '' and not call('ZSCORE', order, stamp .. id)
    if is_lost and tell('no place', id, stamp) then
      give_up(group, body, id, record)
    end
    if is_enough(seen, record) then return end
  end
end
-- check_schedule: whether what the schedule, the lease and the failure say of a group follows from
-- its messages. Needs: schedule, leases, failures, paused, clock_key, call, sub, fmt, number_of,
-- marks_of.
-- number_of: the number that a sequence has come to, by its watermark. Needs: nothing.
local function number_of(mark)
  return tonumber((mark or '0'):match('%d+')) or 0
end
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
local function check_empty(group, visible, lease, failure, tell) -- of a group that has no messages
  local what = visible and 'empty' or lease and 'lease' or failure and 'failure'
  if what and tell(what, group) then
    call('ZREM', schedule, group)
    call('HDEL', leases, group)
    call('HDEL', failures, group)
  end
end

local function check_lease(group, visible, lease, tell) -- its token, or 0 where it is no sound one
  if not lease then return 0 end
  local token = tonumber(sub(lease, 1, 16):match('^' .. ('%d'):rep(16) .. '$') or 9e15)
  if visible ~= math.huge and token < 9e15 then return token end
  if tell(visible == math.huge and 'leased and parked' or 'token', group, lease) then
    call('HDEL', leases, group)
  end
  return 0
end

-- The clock is not behind a stamp that was given.
local function check_ahead(group, clock, ahead, tell)
  if ahead > clock and tell('ahead', group, fmt('%.0f', ahead), ahead < 9e15) then
    call('SET', clock_key, fmt('%.0f', ahead))
  end
end

-- Whether it must become due. `mark_us`: how long a watermark is known, where a gap parks it.
local function check_visible(group, visible, failure, number, mark_us, tell)
  if not visible then return tell('unscheduled', group, failure and 'failed' or '') end
  if visible == math.huge and not failure then
    local is_gap = mark_us and tonumber(number) > number_of(marks_of({group}, mark_us)[1]) + 1
    return not is_gap and tell('parked', group)
  end
  if visible >= 9e15 and visible < math.huge and call('SISMEMBER', paused, group) == 0 then
    return tell('paused', group)
  end
  return false
end
local found = {}
local function tell(what, name, detail, can_repair) -- whether to repair it
  can_repair = not dry_run and can_repair ~= false
  found[#found + 1] = {what, name, detail or '', can_repair and '1' or '0'}
  return can_repair
end

local policy = call('HMGET', policy_key, 'mark_us', 'sequence', 'on_gap')
local ticks = call('GET', clock_key) or '0'
local clock = read_clock(ticks)
if not clock then
  clock = now
  if tell('clock', clock_key, ticks) then
    call('SET', clock_key, fmt('%.0f', now))
  end
end
check_letters(words[3], tell)
if group == '' then return {0, 0, 0, found} end

local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
for _, name in ipairs({order, body}) do
  local size = pcall(name == order and 'ZCARD' or 'HLEN', name)
  if type(size) == 'table' then
    tell('type', name, '', false)
    return {-1, 0, 0, found}
  end
end
local seen = {looked = 0, bytes = 0, ahead = 0}
check_members(order, body, words[1], seen, tell)
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
  if call('LLEN', dispatch) < 1000 then
    call('RPUSH', dispatch, group)
  end
end
return {call('ZCARD', order), call('HLEN', body), seen.looked, found}
