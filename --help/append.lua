-- append: adds messages of one lane, each to its group; a new group becomes due and wakes a
-- consumer.
-- KEYS[1] schedule zset; KEYS[2] clock string; KEYS[3] dispatch list
-- KEYS[4] stats hash
-- These four each append may write. The lane's other keys begin as the first does; naming them too
-- would cost one message 2 % of its time.
-- ARGV[1] on_conflict "none": store nothing; "others": store the rest; "error": store nothing,
--                     error reply (in MULTI); "replace": take the place of the id's pending
--                     message, with a stamp of its own, and store the rest; "error_replace": the
--                     same as "error" (in MULTI)
-- ARGV[2] dry_run     "1": store nothing in any case, only say what would be; "0"
-- ARGV[3] now_us      "" for the server's time
-- ARGV[4] words       JSON [[group, id, score or "", group, id, score or "", ...], [position from 1
--                     of a message that is due later, us or "+" and us from now, ...]]; at most
--                     1000 messages, an id once per group. "" for one message that is due now, and
--                     whose words are no JSON
-- ARGV[5] envelopes   ... one argument a message, in the same order; where words is "", behind the
--                     only one:
-- ARGV[6] group
-- ARGV[7] id
-- ARGV[8] score       or ""
-- RETURN  one string, 17 characters a message: "+" stored, "=" was there or was handled, "!" other
--         content, "<" late and refused, "~" late and dropped, "x" late and a dead letter, "#" its
--         number is pending under another id; then its stamp (zeros: it was handled). Where there
--         are several, and all went the quick way (by_group), only what is said of the first: all
--         are stored, each with a stamp one above that of the one before
-- ERROR   IDCONFLICT or LATE when on_conflict is "error"; SEQUENCE for a score that is no number of
--         a sequence; OOM at maxmemory (SET is refused, and comes first)
local schedule, clock_key, dispatch, stats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local on_conflict = ARGV[1]
local dry_run = ARGV[2] == '1'
local now_us = ARGV[3]
local words = ARGV[4]
local envelope = ARGV[5]
local group, id, score = ARGV[6], ARGV[7], ARGV[8]
-- prelude: the words that every script uses, and the time. Needs: nothing.
local call, pcall = redis.call, redis.pcall
local sub, fmt = string.sub, string.format

local function time_us(now_us) -- the time that the caller gives; for "" the server's
  if now_us ~= '' then return tonumber(now_us) end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local now = time_us(now_us)
local prefix = sub(schedule, 1, -9)
call('HLEN', stats)
local policy = call('HMGET', prefix .. 'policy', 'window_us', 'on_late', 'sequence', 'dedup_us',
  'mark_us', 'dedup_cap')
local on_late, sequence = policy[2] or 'handle', policy[3] == '1'
local dedup_us = tonumber(policy[4] or 0)
local replaces = on_conflict == 'replace' or on_conflict == 'error_replace'
local is_plain = (policy[1] or '0') == '0' and on_late == 'handle' and not sequence
  and not dry_run and not replaces
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
-- The short way, for one message that nothing special is to be said of, and whose id is new. Where
-- it finds something else it leaves all as it was, and the long way looks again: also whether the
-- window of an id that was seen is over.
if words == '' and is_plain then
  local is_seen, visible = false, tonumber(call('ZSCORE', schedule, group) or 'nan')
  local times = dedup_us > 0 and call('HMGET', prefix .. 'memory', 'seen:last', 'seen:old') or {}
  for k, key in ipairs((times[1] or times[2]) and {'seen', 'seen:old'} or {}) do
    local entry = group .. '\n' .. id
    is_seen = is_seen or times[k] and call('SMISMEMBER', prefix .. key, entry)[1] == 1
  end
  local wakes = visible ~= visible
  if visible > now and visible ~= 9e15 then -- as `wake` does
    wakes = call('HEXISTS', prefix .. 'leases', group) == 0
      and call('HEXISTS', prefix .. 'failures', group) == 0
  end
  local hinted, before = wakes and call('LLEN', dispatch), lane_clock()
  local stamp = fmt('%.0f', math.max(before + 1, now))
  local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
  local record = stamp .. (score == '' and '0000A' or '00000') .. envelope
-- rights: refuses a call whose user lacks a right, before anything is written: the server would
-- notice at the command that needs it, in the middle. Asks for each command that may be called
-- behind it, up to where it stands again, in one expression: a loop over their names takes twice as
-- long. Stands first in a script that does not name it. One that does only reads before, where the
-- server itself refuses, or has undone what it wrote. Before Redis 7 there is no such question.
-- Needs: nothing.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = not may('HDEL', key, key) and 'HDEL' or not may('HINCRBY', key, key) and 'HINCRBY' or not may('HSETNX', key, key) and 'HSETNX' or not may('RPUSH', key, key) and 'RPUSH' or not may('SET', key, key) and 'SET' or not may('ZADD', key, key) and 'ZADD' end -- luacheck: no max line length
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks
    .. ' command; nothing was written')
end
  local new = not is_seen and call('SET', clock_key, stamp) and pcall('HSETNX', body, id, record)
  if new == 1 then
    local at = score ~= '' and score or sub(stamp, 1, -7) .. '.' .. sub(stamp, -6)
    local added = pcall('ZADD', order, at, stamp .. id)
    if type(added) == 'table' then
      call('HDEL', body, id)
      return added
    end
    if wakes then
      call('ZADD', schedule, fmt('%.0f', now), group)
    end
    if hinted == 0 then
      call('RPUSH', dispatch, group)
    end
    pcall('HINCRBY', stats, 'appended', 1)
    return '+' .. stamp
  end
  if new then
    call('SET', clock_key, fmt('%.0f', before))
  end
end
-- rights: refuses a call whose user lacks a right, before anything is written: the server would
-- notice at the command that needs it, in the middle. Asks for each command that may be called
-- behind it, up to where it stands again, in one expression: a loop over their names takes twice as
-- long. Stands first in a script that does not name it. One that does only reads before, where the
-- server itself refuses, or has undone what it wrote. Before Redis 7 there is no such question.
-- Needs: nothing.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = not may('EXISTS', key, key) and 'EXISTS' or not may('HDEL', key, key) and 'HDEL' or not may('HEXISTS', key, key) and 'HEXISTS' or not may('HGET', key, key) and 'HGET' or not may('HINCRBY', key, key) and 'HINCRBY' or not may('HLEN', key, key) and 'HLEN' or not may('HMGET', key, key) and 'HMGET' or not may('HSET', key, key) and 'HSET' or not may('HSETNX', key, key) and 'HSETNX' or not may('LLEN', key, key) and 'LLEN' or not may('RENAME', key, key) and 'RENAME' or not may('RPUSH', key, key) and 'RPUSH' or not may('SADD', key, key) and 'SADD' or not may('SCARD', key, key) and 'SCARD' or not may('SET', key, key) and 'SET' or not may('SMISMEMBER', key, key) and 'SMISMEMBER' or not may('UNLINK', key, key) and 'UNLINK' or not may('ZADD', key, key) and 'ZADD' or not may('ZCARD', key, key) and 'ZCARD' or not may('ZMSCORE', key, key) and 'ZMSCORE' or not may('ZRANGEBYSCORE', key, key) and 'ZRANGEBYSCORE' or not may('ZREM', key, key) and 'ZREM' or not may('ZSCORE', key, key) and 'ZSCORE' end -- luacheck: no max line length
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks
    .. ' command; nothing was written')
end
local leases, failures, memory = prefix .. 'leases', prefix .. 'failures', prefix .. 'memory'
-- look_up: what is known of a batch before it is stored; reads only. Needs: prefix, call, word_of,
-- known, marks_of.
-- message: the words of one message of a batch, the stamp that it gets, and what is stored of it
-- where no policy concerns it. A batch is {words = flat list of group, id, score ..., due =
-- position -> time, total}; once the clock was read, `base` and `high` are its us and its seconds.
-- Needs: ARGV, sub, fmt.
local function word_of(batch, i) -- group, id, score
  local words = batch.words
  return words[3 * i - 2], words[3 * i - 1], words[3 * i]
end

local function set_clock(batch, clock) -- message i gets the stamp clock + i
  batch.clock = clock
  batch.base = clock % 1000000
  batch.high = sub(fmt('%.0f', clock), 1, -7)
end

local function stamp_of(batch, i) -- in two parts: seconds, and us within
  local us = batch.base + i
  if us < 1000000 then return batch.high, fmt('%06d', us) end
  local text = fmt('%.0f', batch.clock + i)
  return sub(text, 1, -7), sub(text, -6)
end

local function parts_of(batch, i) -- id, record, score, member
  local words = batch.words
  local id, score = words[3 * i - 1], words[3 * i]
  local seconds, us = stamp_of(batch, i)
  if score ~= '' then
    return id, seconds .. us .. '00000' .. ARGV[4 + i], score, seconds .. us .. id
  end
  return id, seconds .. us .. '0000A' .. ARGV[4 + i], seconds .. '.' .. us, seconds .. us .. id
end
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
-- marks_of: the watermark of each of some groups, or false. Needs: call, numbers, known.
-- numbers: while a group of a sequence has messages, its watermark is in this hash, which forgets
-- nothing. Needs: prefix.
local numbers = prefix .. 'numbers'
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
local function wrong_number(batch) -- the error for a score that can't be a number of a sequence
  for i = 1, batch.total do
    local _, id, score = word_of(batch, i)
    local number = tonumber(score)
    if not (number and number >= 0 and number % 1 == 0) then
      return 'SEQUENCE the score of id ' .. id .. ' is no whole number from 0'
    end
  end
  return nil
end

-- Their keys have their types: what is taken away can't be put back.
local function check_groups(batch)
  for i = 1, batch.total do
    local group = word_of(batch, i)
    call('ZCARD', prefix .. 'order:' .. group)
    call('HLEN', prefix .. 'body:' .. group)
  end
end

local function seen_in(batch, window) -- by position: whether the id was handled lately
  local seen, entries = {}, {}
  for _, key in ipairs(known('seen', window)) do
    for i = 1, entries[1] and 0 or batch.total do
      local group, id = word_of(batch, i)
      entries[i] = group .. '\n' .. id
    end
    for i, is_member in ipairs(call('SMISMEMBER', key, unpack(entries))) do
      seen[i] = seen[i] or is_member == 1
    end
  end
  return seen
end

local function marks_in(batch, window) -- by position: the watermark of the group, or false
  local groups = {}
  for i = 1, batch.total do
    groups[i] = word_of(batch, i)
  end
  return marks_of(groups, window)
end
-- by_group: the quick way for messages that no policy concerns: those of one group are stored
-- together. A group that turns out to hold one of their ids is left for a closer look at each.
-- Needs: store_group.
-- store_group: stores messages of one group together, where none of their ids is there already;
-- else leaves the group as it was. What is stored is noted in `done`: {stored = positions, list =
-- groups that got messages, failure}. Needs: prefix, call, pcall, parts_of.
local function store_several(batch, positions, order, body) -- the answer to ZADD; nil where none is
  local ids, fields, places = {}, {}, {}
  for k, position in ipairs(positions) do
    local id, record, score, member = parts_of(batch, position)
    local n = 2 * k
    ids[k] = id
    fields[n - 1] = id
    fields[n] = record
    places[n - 1] = score
    places[n] = member
  end
  local found = pcall('HMGET', body, unpack(ids))
  if found.err then return nil end
  for k = 1, #positions do
    if found[k] then return nil end
  end
  local new = pcall('HSET', body, unpack(fields))
  if new == #positions then return pcall('ZADD', order, unpack(places)) end
  if type(new) == 'number' then
    call('HDEL', body, unpack(ids)) -- an id stands twice
  end
  return nil
end

-- Whether all are stored; else none is, or `failure` says why.
local function store_group(batch, done, group, positions) -- a table; or a number, for one
  local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
  local stored, list = done.stored, done.list
  local added
  if type(positions) == 'number' then
    local id, record, score, member = parts_of(batch, positions)
    if pcall('HSETNX', body, id, record) ~= 1 then return false end
    added = pcall('ZADD', order, score, member)
    stored[#stored + 1] = positions
  else
    added = store_several(batch, positions, order, body)
    if not added then return false end
    for _, position in ipairs(positions) do
      stored[#stored + 1] = position
    end
  end
  list[#list + 1] = group
  if type(added) == 'table' then
    done.failure = added
  end
  return true
end
-- The positions that need a closer look, in their order.
local function store_groups(batch, done, is_plain)
  -- `of`: the positions of a group; a number for one: a table costs more.
  local groups, of, odd, closer = {}, {}, {}, {}
  local words, due, seen, total = batch.words, batch.due, batch.seen, batch.total
  for i = 1, total do
    local group = words[3 * i - 2]
    local positions = of[group]
    if due[i] or seen[i] or not is_plain then
      odd[group] = true
    end
    if not positions then
      groups[#groups + 1] = group
      of[group] = i
    elseif type(positions) == 'number' then
      of[group] = {positions, i}
    else
      positions[#positions + 1] = i
    end
  end
  for _, group in ipairs(groups) do
    if not odd[group] and not store_group(batch, done, group, of[group]) then
      odd[group] = true
    end
  end
  for i = 1, next(odd) and total or 0 do
    local group = words[3 * i - 2]
    if odd[group] then
      closer[#closer + 1] = i
    end
  end
  return closer
end
-- one_by_one: messages each by itself, where a policy concerns them, or one of their ids may be
-- there already. Besides what by_group notes in `done`: {marks = by position the fate and the
-- stamp, first = group -> from when on the earliest of its messages may be handled (none for a
-- group of the quick way: now), late = messages that come too late, refused = the marks of what was
-- refused}. Needs: ARGV, prefix, now, pcall, word_of, stamp_of, arrival, fate_of, compare,
-- remove_pending.
-- arrival: a message as it comes, by its own words and the clock. Needs: now, sub, fmt.
-- Head of the record, score, and from when on it may be handled.
local function arrival(batch, i, seconds, us, stamp, window)
  local due, score, flag, at = batch.due[i], batch.words[3 * i], '0', now
  if due then
    at = tonumber(due)
    if sub(due, 1, 1) == '+' then
      at = now + at
    end
    due = fmt('%016.0f', at)
    flag = 'D'
    if score == '' then
      flag = 'T'
      score = sub(due, 1, 10) .. '.' .. sub(due, 11)
    end
  elseif score == '' then
    flag = 'A'
    score = seconds .. '.' .. us
  end
  if window > 0 then
    at = math.max(at, tonumber(stamp) + window)
  end
  return stamp .. '0000' .. flag .. (due or ''), score, at
end
-- fate: what becomes of a message, by what is there already. Needs: ARGV, prefix, call, pcall, sub,
-- word_of.
local function numbered_fate(order, number, mark) -- of a number of a sequence whose id is not known
  if #pcall('ZRANGEBYSCORE', order, number, number, 'LIMIT', 0, 1) > 0 then return '#' end
  if not mark or tonumber(number) > tonumber(mark:match('%d+')) then return '+' end
  for first, last in mark:gmatch('(%d+)-(%d+)') do
    if tonumber(number) >= tonumber(first) and tonumber(number) <= tonumber(last) then
      return '+' -- was skipped, and comes at last
    end
  end
  return '='
end

local LATE = {refuse = '<', drop = '~', dead_letter = 'x'}

local function fate_of(batch, i, score, rules) -- "+" to store it, else its mark
  local mark, is_seen = batch.marked and batch.marked[i], batch.seen[i]
  if not (is_seen or mark or rules.sequence) then return '+' end
  local group, id = word_of(batch, i)
  local order = prefix .. 'order:' .. group
  local record = pcall('HGET', prefix .. 'body:' .. group, id)
  if type(record) == 'string' then
    -- Pending: to be compared, or replaced; then its number stays what it is.
    if not (rules.replaces and rules.sequence) then return '+' end
    local pending = pcall('ZSCORE', order, sub(record, 1, 16) .. id)
    return tonumber(pending) == tonumber(score) and '+' or '!'
  end
  if is_seen then return '=' end
  if rules.sequence then return numbered_fate(order, score, mark) end
  return tonumber(score) < tonumber(mark) and LATE[rules.on_late] or '+'
end

-- "=" or "!" for a message whose id is pending, and the stamp of that.
local function compare(batch, i, order, body)
  local _, id, score = word_of(batch, i)
  local old, due = call('HGET', body, id), batch.due[i]
  local stamp, flag = sub(old, 1, 16), sub(old, 21, 21)
  local has_due = flag == 'D' or flag == 'T'
  local same = sub(old, has_due and 38 or 22) == ARGV[4 + i]
  if same and score ~= '' then
    same = tonumber(call('ZSCORE', order, stamp .. id) or 'nan') == tonumber(score)
  end
  if same and due and sub(due, 1, 1) ~= '+' and flag ~= 'R' then
    same = has_due and tonumber(sub(old, 22, 37)) == tonumber(due)
  end
  return same and '=' or '!', stamp
end
-- remove_pending: takes a pending message out of its group, whoever may hold it; a failure of the
-- group that was about it goes too. Needs: prefix, failures, call, pcall, sub.
-- Its record and score; nil where it is not there, or a right is missing.
local function remove_pending(group, id)
  local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
  local record = pcall('HGET', body, id)
  if type(record) ~= 'string' then return nil end
  local member = sub(record, 1, 16) .. id
  local score = pcall('ZSCORE', order, member)
  local removed = pcall('ZREM', order, member)
  if score and type(removed) == 'table' and not removed.err:find('WRONGTYPE') then
    return nil -- it stays whole
  end
  call('HDEL', body, id)
  local failure = call('HGET', failures, group)
  if failure and failure:find(sub(member, 1, 16), 1, true) then
    call('HDEL', failures, group)
  end
  return record, score
end
local function note_stored(done, i, group, at)
  local first = done.first
  done.stored[#done.stored + 1] = i
  if not first[group] then
    done.list[#done.list + 1] = group
    first[group] = at
  elseif at < first[group] then
    first[group] = at
  end
end

-- What becomes of a message, and the stamp that is told.
local function store_closely(batch, i, rules, done)
  local seconds, us = stamp_of(batch, i)
  local group, id = word_of(batch, i)
  local order, body, stamp = prefix .. 'order:' .. group, prefix .. 'body:' .. group, seconds .. us
  local head, score, at = arrival(batch, i, seconds, us, stamp, rules.window)
  local fate = fate_of(batch, i, score, rules)
  if fate == '=' then return fate, '0000000000000000' end
  if fate == '#' or fate == '!' then return fate, stamp end
  local record = head .. ARGV[4 + i]
  if fate ~= '+' then
    done.late[#done.late + 1] = {i, fate, stamp, score, record}
    return fate, stamp
  end
  if rules.replaces and not rules.dry_run and remove_pending(group, id) then
    at = now -- what lies behind the old one may be due
  end
  local new = 1
  if not rules.dry_run then
    new = pcall('HSETNX', body, id, record)
  elseif not rules.replaces then
    new = 1 - pcall('HEXISTS', body, id)
  end
  if new == 0 then return compare(batch, i, order, body) end
  if new ~= 1 then
    done.failure = new
  elseif not rules.dry_run then
    note_stored(done, i, group, at)
    local added = pcall('ZADD', order, score, stamp .. id)
    if type(added) == 'table' then
      done.failure = added
    end
  end
  return fate, stamp
end

local function store_one_by_one(batch, positions, rules, done)
  local marks = done.marks
  for _, i in ipairs(positions) do
    if done.failure then return end
    local fate, stamp = store_closely(batch, i, rules, done)
    if fate == '!' or fate == '#' or fate == '<' then
      done.refused = done.refused .. fate
    end
    marks[2 * i - 1] = fate
    marks[2 * i] = stamp
  end
end
-- undo: takes back what was stored before something was refused; reads and writes what is noted in
-- `done` (one_by_one). Needs: stats, pcall, word_of, remove_pending.
local function undo(batch, done, dry_run)
  for _, i in ipairs(done.stored) do
    remove_pending(word_of(batch, i))
  end
  local _, late = done.refused:gsub('<', '')
  if late > 0 and not dry_run then
    pcall('HINCRBY', stats, 'late', late)
    pcall('HINCRBY', stats, 'refused', late)
  end
end

local function error_of(refused) -- the text of the error reply, by the marks of what was refused
  if refused == '<' then return 'LATE its score lies below one handled' end
  if refused:find('#', 1, true) then
    return 'IDCONFLICT its number is pending under another id'
  end
  return 'IDCONFLICT the id is pending with other content'
end
-- settle: the end of an append: late messages are set aside, everything is counted. Totals are
-- counted by pcall, here and everywhere: one that others overwrote must not end a script in the
-- middle of what it writes. Needs: stats, now, call, pcall, numbers, word_of, schedule_groups,
-- set_aside, remember_ids.
-- schedule_groups: groups that got messages become due, or wake. Needs: schedule, dispatch, now,
-- call, fmt, wake, SOON.
-- wake: lets a group be looked at by `at`, or adds it; a claim decides whether its head may be
-- handled then. A group that is leased, backs off, is parked behind a failure, or is paused stays
-- as it is. Needs: schedule, leases, failures, dispatch, now, call, fmt.
-- Us; idle consumers look again within a second, and need no hint before.
local PAUSED, SOON = 9e15, 1100000

local function wake(group, at)
  if at < now then
    at = now
  end
  local visible = tonumber(call('ZSCORE', schedule, group) or 'nan')
  if visible == visible then
    if visible <= at or visible == PAUSED then return end
    if call('HEXISTS', leases, group) == 1 then return end
    if call('HEXISTS', failures, group) == 1 then return end
  end
  call('ZADD', schedule, fmt('%.0f', at), group)
  if at <= now + SOON and call('LLEN', dispatch) < 1000 then
    call('RPUSH', dispatch, group)
  end
end
local HINTS, FEW = 100, 32

-- `waiting`: {hinted = how many hints there are, later = groups to be looked at later, FEW + 1 at
-- most}. Where a hint is there already, nobody needs to know which groups are new; and of those to
-- be looked at later there may be few: they are known by name then, and of the others none has to
-- be woken.
local function schedule_groups(list, first, waiting)
  local is_hinted, later, is_later = waiting.hinted > 0, waiting.later, {}
  local news, hints, text, visibles = {'NX'}, {}, fmt('%.0f', now), nil
  if not is_hinted or #later > FEW then
    visibles = #list > 0 and call('ZMSCORE', schedule, unpack(list)) or {}
  end
  for _, group in ipairs(later) do
    is_later[group] = true
  end
  for i, group in ipairs(list) do
    local at, visible = first[group] or now, visibles and visibles[i]
    if at < now then
      at = now
    end
    if visible and tonumber(visible) > at or not visibles and is_later[group] then
      wake(group, at)
    elseif not visible then
      news[#news + 1] = at == now and text or fmt('%.0f', at)
      news[#news + 1] = group
      if not is_hinted and at <= now + SOON then
        hints[#hints + 1] = group
      end
    end
  end
  if #news > 1 then
    call('ZADD', schedule, unpack(news))
  end
  if #hints > 0 then
    call('RPUSH', dispatch, unpack(hints, 1, math.min(#hints, HINTS)))
  end
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
-- set_aside: keeps a message as a dead letter, under its stamp, group and id: `dead` (zset: letter
-- -> when it died, us) and `letters` (hash: letter -> score, newline, failure as JSON, newline,
-- record). Needs: prefix, now, call, fmt, sub.
local function set_aside(group, member, score, record, failure)
  local letter = sub(member, 1, 16) .. group .. '\n' .. sub(member, 17)
  call('ZADD', prefix .. 'dead', fmt('%.0f', now), letter)
  call('HSET', prefix .. 'letters', letter, score .. '\n' .. failure .. '\n' .. record)
end
-- In a sequence: a watermark that is known stays so while there are messages.
local function keep_numbers(batch, stored)
  for _, i in ipairs(batch.marked and stored or {}) do
    if batch.marked[i] then
      call('HSETNX', numbers, word_of(batch, i), batch.marked[i])
    end
  end
end

local function settle_late(batch, late, count) -- the entries of those whose ids stay known
  local entries = {}
  for _, one in ipairs(late) do
    local i, fate, stamp, score, record = unpack(one)
    local group, id = word_of(batch, i)
    local name = fate == 'x' and 'dead' or fate == '~' and 'dropped' or 'refused'
    if fate == 'x' then
      local mark = tostring(batch.marked[i])
      local text = 'its score ' .. score .. ' lies below ' .. mark .. ', which was handled'
      local failure = {id = id, type = 'TooLate', message = text, attempt = 0, at = now / 1e6}
      set_aside(group, stamp .. id, score, record, cjson.encode(failure))
    end
    if fate ~= '<' then
      entries[#entries + 1] = group .. '\n' .. id
    end
    count[name] = (count[name] or 0) + 1
    count.late = (count.late or 0) + 1
  end
  return entries
end

local function settle(batch, rules, done, waiting)
  local count = {appended = #done.stored}
  if rules.sequence then
    keep_numbers(batch, done.stored)
  end
  schedule_groups(done.list, done.first, waiting)
  remember_ids(settle_late(batch, done.late, count), rules.dedup_us, rules.dedup_cap)
  for name, n in pairs(count) do
    if n > 0 then
      pcall('HINCRBY', stats, name, n)
    end
  end
end
-- check_memory: the keys of what is remembered have their types. Asked before the first write: Lua
-- does not roll back. Needs: prefix, memory, call, numbers.
local function check_memory()
  call('HLEN', memory)
  call('SCARD', prefix .. 'seen')
  call('HLEN', prefix .. 'marks')
  call('HLEN', numbers)
end
local rules = {
  window = tonumber(policy[1] or 0),
  on_late = on_late,
  sequence = sequence,
  dedup_us = dedup_us,
  dedup_cap = tonumber(policy[6] or 0),
  replaces = replaces,
  dry_run = dry_run,
}
local flat, dues, due = {group, id, score}, {}, {}
if words ~= '' then
  flat, dues = unpack(cjson.decode(words))
end
for k = 1, #dues, 2 do
  due[dues[k]] = dues[k + 1]
end
-- `words` is flat, since a table for each message costs more than all that it holds.
local batch = {words = flat, due = due, total = #flat / 3, seen = {}}

local waiting = {hinted = call('LLEN', dispatch)}
waiting.later = call('ZRANGEBYSCORE', schedule, '(' .. fmt('%.0f', now), 'inf', 'LIMIT', 0, FEW + 1)
call('ZMSCORE', schedule, '')
call('ZSCORE', schedule, '')
call('HEXISTS', leases, '')
call('HEXISTS', failures, '')
local wrong = sequence and wrong_number(batch)
if wrong then return redis.error_reply(wrong) end
if replaces then
  check_groups(batch)
else
  batch.seen = seen_in(batch, dedup_us)
end
if sequence or on_late ~= 'handle' then
  check_memory()
  call('ZCARD', prefix .. 'dead')
  call('HLEN', prefix .. 'letters')
  batch.marked = marks_in(batch, tonumber(policy[5] or 0))
end
set_clock(batch, math.max(lane_clock(), now - 1))
call('SET', clock_key, fmt('%.0f', batch.clock + batch.total))

-- Storing is tried at once, and undone exactly where something was refused: a look at every id
-- before the first write would cost a third of the script's time for the sake of the rare case.
local done = {stored = {}, list = {}, first = {}, late = {}, marks = {}, refused = ''}
local closer = {1}
if batch.total > 1 then
  call('HDEL', failures, '') -- changes nothing; what undoing needs is asked for before that
  closer = store_groups(batch, done, is_plain)
end
store_one_by_one(batch, closer, rules, done)
local failure, refused = done.failure, done.refused
if failure or (refused ~= '' and on_conflict ~= 'others' and on_conflict ~= 'replace') then
  undo(batch, done, dry_run)
  if failure then return failure end
  if on_conflict == 'error' or on_conflict == 'error_replace' then
    return redis.error_reply(error_of(refused))
  end
elseif not dry_run then
  settle(batch, rules, done, waiting)
end
for i = 1, closer[1] and batch.total or 1 do
  if not done.marks[2 * i] then
    done.marks[2 * i - 1] = '+'
    done.marks[2 * i] = table.concat({stamp_of(batch, i)})
  end
end
return table.concat(done.marks)
