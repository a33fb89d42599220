-- nack: the handler of a leased group's head failed. The group waits, or is parked, with the
-- failure kept; or the message becomes a dead letter or is dropped, and the group goes on.
-- ARGV[1] group      ARGV[2] token (16 digits)   ARGV[3] member
-- ARGV[4] attempts   of the message by now; set, so that a repeat is harmless; "" leaves it
-- ARGV[5] delay_ms   until the group may be claimed again; "" for the end of trying
-- ARGV[6] ending     "park", "dead" or "drop" at the end of trying, else ""
-- ARGV[7] failure    bytes to keep, without a newline
-- ARGV[8] mark       the group's watermark if the message is passed, "" to leave it
-- ARGV[9] is_late    "1": it is given up because it is late
-- ARGV[10] verdict   "outage": what all handlers need is not there; "timeout": the handler took too
--                    long; "missing": this version lacks what the message needs; else ""
-- ARGV[11] waits     of an outage, JSON [ms that its group waits at first, at most, ms until the
--                    next probe or ""]; else ""
-- ARGV[12] before    the member whose ack was sent in front of this call, or ""
-- ARGV[13] ledger    of the message, as its record keeps it (parts/record); "" leaves it
-- ARGV[14] ended     of one that is dropped after an attempt, where a history is kept: what that
--                    says of it, but for the error; else ""
-- An outage counts no attempt, and `attempts`, `delay_ms`, `ending` (unless there is a ledger) and
-- `mark` are not used; parts/outage/count.lua says which is a failure like others. Of one that is
-- missing the failure begins with how often in a row, and us since when.
-- RETURN  1; nothing was changed for 0: the token is not valid, and -2: `before` is still there, as
--         its ack was refused
-- RETURN  of an outage, and while one holds the shard back: ["1" if no attempt was counted or "0",
--         ms that the group waits or "", now_us, us since when and us of the next probe or "",
--         "1" if this failure began it or "0"]
local group, token, member, attempts, delay_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local ending, failure, mark = ARGV[6], ARGV[7], ARGV[8]
local is_late = ARGV[9] == '1'
local verdict, waits, before, ledger, ended = ARGV[10], ARGV[11], ARGV[12], ARGV[13], ARGV[14]
--+ keys
--+ generation
--+ check_keys
--+ outage/count
--+ ledger
--+ failure_kept
--+ history/behind
--+ take_away
--+ go_on
local history = open_history()
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
local held = call('HGET', leases, group)
if not held or sub(held, 1, 16) ~= token then return 0 end
local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
if before ~= '' and type(pcall('ZSCORE', order, before)) == 'string' then return -2 end
local handled = tonumber(call('HGET', stats, 'handled') or 0) or 0
local failed_before = call('HGET', failures, group) or ''
if not failed_before:find(sub(member, 1, 16), 1, true) then
  failed_before = '' -- it is about another message
end
check_keys()
local probe_us = tonumber(call('HGET', policy_key, 'probe_us') or nil)
local held_back = {probe_us = probe_us, is_new = false}
if ledger == '' then failure = with_log(failure, failed_before, member) end
local wait_ms, after_ms = nil, nil
if verdict == 'outage' then
  wait_ms, after_ms, failure = count_outage(held_back, cjson.decode(waits),
    failed_before, handled)
  if ledger ~= '' and ending ~= '' then wait_ms = nil end
elseif verdict == 'missing' then
  failure = count_missing(failure, failed_before)
end
if wait_ms then
  delay_ms = wait_ms
  ending = ''
end
local is_probe = held_back.probe_us and call('HGET', outage, 'token') == token

local id = sub(member, 17)
local record, score = pcall('HGET', body, id), pcall('ZSCORE', order, member)
if type(record) == 'string' and sub(record, 1, 16) == sub(member, 1, 16) then
  if ledger ~= '' or not wait_ms then
    record = rewritten(record, attempts, ledger)
    call('HSET', body, id, record)
  end
else
  record = ''
end

local name, visible = 'failed', now_text
if not score then
  name = 'overtaken' -- cancelled or replaced meanwhile: nothing holds the group back
elseif ending == 'dead' or ending == 'drop' then
  local text = ending == 'drop' and ended_behind('d', member, record, failure, ended) or nil
  take_away(group, member, score, record, failure, mark, history, text)
  keep_history(history)
  name = ending == 'dead' and 'dead' or 'dropped'
  call('HDEL', failures, group)
  if is_late then pcall('HINCRBY', stats, 'late', 1) end
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
  held_back.probe_us = failed_probe(verdict ~= 'missing' and verdict or '', after_ms, failure)
  if wait_ms and name == 'failed' then
    visible = now_text -- behind all that are due
  end
end

go_on(group, visible)
call('HDEL', leases, group)
if name ~= 'failed' then pcall('HINCRBY', stats, name, 1) end
if not is_late and verdict ~= 'missing' then
  pcall('HINCRBY', stats, 'failed', 1)
end
if verdict ~= 'outage' and not held_back.probe_us then return 1 end
return said_of(held_back, wait_ms)
