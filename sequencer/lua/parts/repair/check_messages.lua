-- check_messages: checks members of a group's order against their records, and dead letters: each
-- has a time and a content. `seen` is that of is_enough, with `ahead`, the latest stamp, and
-- `clock`; `tell` notes what is broken, and says whether to repair it. A failure of the group that
-- is about a member goes with that: the group goes on. Each ledger is told, behind the clock: the
-- caller reads it, and says whether it is broken.
--+ repair/is_enough
--+ record
local function tell_ledger(what, letter, kept, clock, tell)
  local _, head = kept:find('^[^\n]*\n[^\n]*\n') -- score and failure
  local _, _, ledger = cut(sub(kept, (head or #kept) + 1))
  if ledger ~= '' then tell(what, letter, clock .. ' ' .. ledger, false) end
end

local function check_letters(names, seen, tell)
  for _, letter in ipairs(names) do
    local died, kept = call('ZSCORE', dead, letter), call('HGET', dead_letters, letter)
    if died and not kept and tell('dead letter without content', letter, died) then
      call('ZREM', dead, letter)
    end
    if kept and not died and tell('dead letter unlisted', letter) then
      call('ZADD', dead, fmt('%.0f', now), letter)
    end
    tell_ledger('dead letter ledger broken', letter, kept or '', seen.clock, tell)
    if is_enough(seen, kept or '') then return end
  end
end

local function check_skipped(names, seen, tell)
  for _, letter in ipairs(names) do
    local kept = call('HGET', skipped, letter) or ''
    tell_ledger('skipped ledger broken', letter, kept, seen.clock, tell)
  end
end

local function check_member(order, body, member, score, record, clock, tell)
  local stamp, id = sub(member, 1, 16), sub(member, 17)
  local is_own = stamp:match('^%d+$') and sub(record, 1, 16) == stamp
  local attempts = sub(record, 17, 20):match('^%d%d%d%d$')
  local flag, _, ledger, at = cut(record)
  local is_lie = flag == 'A' and tonumber(score) ~= (tonumber(stamp) or 0) / 1e6
  local rest = is_lie and head_of('', '', '0', '', ledger) .. sub(record, at) or sub(record, 21)
  if not is_own and (#record < 22 or call('ZSCORE', order, sub(record, 1, 16) .. id)) then
    if tell('message without record', member, score) then
      call('ZREM', order, member)
      local failure = call('HGET', failures, group)
      if failure and failure:find(stamp, 1, true) then
        call('HDEL', failures, group)
      end
    end
  elseif not (is_own and attempts) then
    if tell('record differs', member, sub(record, 1, 20), #record > 21) then
      call('HSET', body, id, stamp .. (attempts or '0000') .. rest)
    end
  elseif is_lie and tell('score differs', member, score) then
    call('HSET', body, id, sub(record, 1, 20) .. rest)
  end
  if is_own and ledger ~= '' then
    tell('ledger broken', member, clock .. ' ' .. ledger, false)
  end
end

local function check_members(order, body, members, seen, tell)
  for _, member in ipairs(members) do
    local score = call('ZSCORE', order, member)
    local record = score and call('HGET', body, sub(member, 17)) or ''
    if score then
      check_member(order, body, member, score, record, seen.clock, tell)
      seen.ahead = math.max(seen.ahead, tonumber(sub(member, 1, 16)) or 0)
    end
    if is_enough(seen, record) then return end
  end
end
