-- arrival: a message as it comes, by its own words and the clock.
--+ due_score
-- Head of the record, score, and from when on it may be handled.
local function arrival(batch, i, seconds, us, stamp, window)
  local due, score, flag, at = batch.due[i], batch.words[3 * i], '0', now
  if due then
    local time, unit = due:match('^(%+?%d+)(%a*)$')
    at = tonumber(time)
    if sub(due, 1, 1) == '+' then
      at = now + at
    end
    due = fmt('%016.0f', at)
    flag = 'D'
    if score == '' then
      flag = 'T'
      score = due_score(due, unit)
    end
  elseif score == '' then
    flag = 'A'
    score = seconds .. '.' .. us
  end
  if window > 0 then
    at = math.max(at, tonumber(stamp) + window)
  end
  return head_of(stamp, '0000', flag, due or '', batch.ledger[i] or ''), score, at
end
