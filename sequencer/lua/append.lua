-- append: adds messages of one shard, each to its group; a new group becomes due, and is hinted.
-- KEYS[1] schedule; KEYS[2] clock; KEYS[3] dispatch; KEYS[4] stats
-- Others are not named, here and in claim and ack: each would cost one message 1 % of its time.
-- ARGV[1] on_conflict "none": store nothing; "others": store the rest; "replace": take the place of
--                     the pending message, with an own stamp; "error", "error_replace": the same as
--                     "none" and "replace" in a MULTI: an error reply where anything is refused
-- ARGV[2] mode        "0"; "1": only say what would be; "2", of one: say its group's size, too; of
--                     an outbox's relay: its name, the number of this batch, and that of its last
-- ARGV[3] words       JSON [[group, id, score or "", ...], [position from 1 of a message that is
--                     due later, us or "+" and us from now, then the unit in which that is its
--                     score, if that is known: "s", "ms", "us", ...], [position, its ledger, ...]];
--                     at most 1000 messages, an id once per group. "" for one without time and
--                     ledger
-- ARGV[4] envelopes   ... one a message, in the same order; where words is "", behind the only one
-- ARGV[5] group       ARGV[6] id   ARGV[7] score
-- RETURN  one string, 17 characters a message: "+" stored, "=" was there or was handled, "!" other
--         content, "<" late and refused, "~" late and dropped, "x" late and a dead letter, "#" its
--         number is pending under another id, "*" not replaced, as its ledger notes effects; then
--         its stamp (zeros: it was handled). Only that of the first where several all went the
--         quick way (by_group): the stamps of the others follow its own. In mode "2", the number
--         behind. "F" and the number of the relay's last batch here, and nothing is stored: this
--         one is stored already, or one before it is lost
-- ERROR   GENERATION; in a MULTI IDCONFLICT, EFFECTS, LATE; SEQUENCE for a score that is no number
--         of a sequence; OOM at maxmemory (SET is refused, and comes first)
local schedule, clock_key, dispatch, stats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local on_conflict, mode, words = ARGV[1], ARGV[2], ARGV[3]
local envelope, group, id, score = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local generation = ARGV[#ARGV]
local dry_run = mode == '1'
--+ prelude
local now = time_us()
local prefix = sub(schedule, 1, -9)
call('HLEN', stats)
--+ packed_rules
local packed = call('HGET', prefix .. 'policy', 'packed') or NO_RULES
local ends = generation_end(packed, generation)
if not ends then return redis.error_reply('GENERATION ' .. packed:match('^%S*')) end
local replaces = on_conflict == 'replace' or on_conflict == 'error_replace'
local relay, number
if #mode > 1 then
  local before
  relay, number, before = mode:match('^(%S+) (%d+) (%d+)$')
  local last = tonumber(call('HGET', prefix .. 'relays', relay) or 0)
  if last >= tonumber(number) or last < tonumber(before) then return 'F' .. fmt('%.0f', last) end
  mode = '0'
end
local is_plain = sub(packed, ends + 1, ends + 1) == '1' and mode == '0' and not replaces
local dedup_us = tonumber(packed:match('^%d+', ends + 3))
--+ shard_clock
-- The short way, for one message that nothing special is to be said of, and whose id is new. Where
-- it finds something else it leaves all as it was, and the long way looks again: also whether the
-- window of an id that was seen is over.
if words == '' and is_plain and not relay then
  local is_seen, visible = false, tonumber(call('ZSCORE', schedule, group) or 'nan')
  local times = dedup_us > 0 and call('HMGET', prefix .. 'memory', 'dedup:last', 'dedup:old') or {}
  for k, key in ipairs((times[1] or times[2]) and {'dedup', 'dedup:old'} or {}) do
    local entry = group .. '\n' .. id
    is_seen = is_seen or times[k] and call('SMISMEMBER', prefix .. key, entry)[1] == 1
  end
  local wakes = visible ~= visible
  if visible > now and visible ~= 9e15 then -- as `wake` does
    wakes = call('HEXISTS', prefix .. 'leases', group) == 0
      and call('HEXISTS', prefix .. 'failures', group) == 0
  end
  local hinted, before = wakes and call('LLEN', dispatch), shard_clock()
  local stamp = fmt('%.0f', math.max(before + 1, now))
  local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
  local record = stamp .. (score == '' and '0000A' or '00000') .. envelope
--+ rights
  local new = not is_seen and call('SET', clock_key, stamp)
    and pcall('HSETNX', body, id, record)
  if new == 1 then
    local at = score ~= '' and score or sub(stamp, 1, -7) .. '.' .. sub(stamp, -6)
    local added = pcall('ZADD', order, at, stamp .. id)
    if type(added) == 'table' then
      call('HDEL', body, id)
      return added
    end
    if wakes then call('ZADD', schedule, fmt('%.0f', now), group) end
    if hinted == 0 then call('RPUSH', dispatch, group) end
    pcall('HINCRBY', stats, 'appended', 1)
    return '+' .. stamp
  end
  if new then call('SET', clock_key, fmt('%.0f', before)) end
end
--+ rights
local leases, failures, memory = prefix .. 'leases', prefix .. 'failures', prefix .. 'memory'
--+ append/look_up
--+ append/by_group
--+ append/one_by_one
--+ append/settle
--+ memory/remember
local rules = rules_of(packed, ends)
rules.replaces = replaces
rules.dry_run = dry_run
local flat, dues, ledgers, due, ledger = {group, id, score}, {}, {}, {}, {}
if words ~= '' then flat, dues, ledgers = unpack(cjson.decode(words)) end
for k = 1, #dues, 2 do
  due[dues[k]] = dues[k + 1]
end
for k = 1, #ledgers, 2 do
  ledger[ledgers[k]] = ledgers[k + 1]
end
-- `words` is flat, since a table for each message costs more than all that it holds.
local batch = {words = flat, due = due, ledger = ledger, total = #flat / 3, seen = {}}

local waiting = {hinted = call('LLEN', dispatch)}
waiting.later = call('ZRANGEBYSCORE', schedule, '(' .. fmt('%.0f', now), 'inf', 'LIMIT', 0, FEW + 1)
call('ZMSCORE', schedule, '')
call('ZSCORE', schedule, '')
call('HEXISTS', leases, '')
call('HEXISTS', failures, '')
local wrong = rules.sequence and wrong_number(batch)
if wrong then return redis.error_reply(wrong) end
add_units(batch, rules.mark_us)
if (replaces or rules.on_late == 'drop') and not dry_run then -- else it pays nothing
--+ history/of_append
  rules.history = history_of_append()
end
if replaces then
  check_groups(batch)
else
  batch.seen = seen_in(batch, dedup_us)
end
if rules.sequence or rules.on_late ~= 'handle' then
  check_memory()
  call('ZCARD', prefix .. 'dead')
  call('HLEN', prefix .. 'dead_letters')
  batch.marked = marks_in(batch, rules.mark_us)
end
set_clock(batch, math.max(shard_clock(), now - 1))
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
  if relay then call('HSET', prefix .. 'relays', relay, number) end
end
for i = 1, closer[1] and batch.total or 1 do
  if not done.marks[2 * i] then
    done.marks[2 * i - 1] = '+'
    done.marks[2 * i] = table.concat({stamp_of(batch, i)})
  end
end
if mode == '2' then done.marks[3] = call('ZCARD', prefix .. 'order:' .. flat[1]) end
return table.concat(done.marks)
