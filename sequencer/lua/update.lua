-- update: cancels a pending message, or gives it another time, unless a consumer may have it.
-- ARGV[1] group    ARGV[2] id
-- ARGV[3] score    "" to cancel; else the new score; "due" for that of the new time, in the unit
--                  of the old one, where it had that of its old one; "s", "ms" or "us" for that of
--                  the new time, in this unit
-- ARGV[4] due      the new time: us, or "+" and us from now
-- RETURN  "done", "missing", "leased": a consumer may be handling it, or "effects": it is not
--         cancelled, since its ledger notes effects
-- A lease that ran out is ended where it was on this message. A message that may have been claimed
-- without a ledger gets one that keeps its stamp: the keys of its steps are made of that.
-- ERROR   OOM at maxmemory for a new time (SET is refused, and comes first)
local group, id, score, due = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
--+ keys
--+ generation
--+ shard_clock
--+ memory/remember
--+ memory/again
--+ wake
--+ remove_pending
--+ record
--+ due_score
--+ history/keep
local stamp = fmt('%.0f', math.max(shard_clock() + 1, now))
local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
local record, held = pcall('HGET', body, id), call('HGET', leases, group)
if type(record) ~= 'string' then return 'missing' end
local flag, due_before, ledger, at_envelope = cut(record)
local arrived, due_us = tonumber(sub(record, 1, 16)) or 0, tonumber(due_before) or 0
local was_there = math.max(arrived, due_us)
local in_progress = held and was_there <= (tonumber(sub(held, 1, 16)) or 0)
local visible = tonumber(call('ZSCORE', schedule, group) or 'nan')
if in_progress and not (visible <= now or visible == 9e15) then return 'leased' end
if score == '' and sub(ledger, 1, 1) == '1' then return 'effects' end
if ledger == '' and due_us <= now then
  local text = '{"k":' .. fmt('%.0f', arrived) .. ',"s":[]}'
  ledger = '00001' .. fmt('%06x', #text) .. text
end
call('ZCARD', order)
check_memory()
local history = open_history()

if score == '' then
  call('HDEL', leases, '')
else
  call('SET', clock_key, stamp)
end
local taken, old_score, failure = remove_pending(group, id)
if not taken then
  return redis.error_reply('NOPERM the user has no permissions to take it out; nothing was done')
end
if score == '' then
  pcall('HINCRBY', stats, 'cancelled', 1)
  forget_again(group, id)
  local text = ended_text('c', record, sub(record, 17, 20))
  add_ending(history, group .. '\n' .. id, text, old_score or '', failure, record)
  keep_history(history)
else
  local at = tonumber(due)
  if sub(due, 1, 1) == '+' then at = now + at end
  local text = fmt('%016.0f', at)
  local unit = DIGITS[score] and score
    or score == 'due' and flag == 'T' and unit_of(tonumber(old_score))
  if unit then
    score = due_score(text, unit)
  elseif score == 'due' then
    score = old_score
  end
  local head = head_of(stamp, '0000', unit and 'T' or 'D', text, ledger)
  call('ZADD', order, score, stamp .. id)
  call('HSET', body, id, head .. sub(record, at_envelope))
end
if in_progress then call('HDEL', leases, group) end
if call('EXISTS', order) == 1 then
  wake(group, now)
else
  forget(group)
end
return 'done'
