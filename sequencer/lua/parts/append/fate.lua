-- fate: a message as it comes, by its own words and the clock; and what becomes of it, by what is
-- there already.
--+ due_score
--+ append/message
--+ record
-- Head of the record, score, and from when on it may be handled.
local function arrival(batch, i, seconds, us, stamp, window)
  local due, score, flag, at = batch.due[i], batch.words[3 * i], '0', now
  if due then
    local time, unit = due:match('^(%+?%d+)(%a*)$')
    at = tonumber(time)
    if sub(due, 1, 1) == '+' then at = now + at end
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
  if window > 0 then at = math.max(at, tonumber(stamp) + window) end
  return head_of(stamp, '0000', flag, due or '', batch.ledger[i] or ''), score, at
end

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
  if not (is_seen or mark or rules.sequence or rules.replaces) then return '+' end
  local group, id = word_of(batch, i)
  local order = prefix .. 'order:' .. group
  local record = pcall('HGET', prefix .. 'body:' .. group, id)
  if type(record) == 'string' then
    -- Pending: to be compared, or replaced; then its effects are not lost, and its number stays.
    local _, _, ledger = cut(record)
    if rules.replaces and sub(ledger, 1, 1) == '1' then return '*' end
    if not (rules.replaces and rules.sequence) then return '+' end
    local pending = pcall('ZSCORE', order, sub(record, 1, 16) .. id)
    return tonumber(pending) == tonumber(score) and '+' or '!'
  end
  if is_seen then return '=' end
  if rules.sequence then return numbered_fate(order, score, mark) end
  if not mark then return '+' end
  return tonumber(score) < tonumber(mark) and LATE[rules.on_late] or '+'
end

local function content(text, at) -- without the trace, which stands behind a newline
  local ends = text:find('\n', at, true)
  return sub(text, at, (ends or 0) - 1)
end

-- "=" or "!" for a message whose id is pending, and the stamp of that.
local function compare(batch, i, order, body)
  local _, id, score = word_of(batch, i)
  local old, due = call('HGET', body, id), batch.due[i]
  local stamp, flag, due_before, _, at = sub(old, 1, 16), cut(old)
  local same = content(old, at) == content(ARGV[3 + i], 1)
  if same and score ~= '' then
    same = tonumber(call('ZSCORE', order, stamp .. id) or 'nan') == tonumber(score)
  end
  if same and due and sub(due, 1, 1) ~= '+' and flag ~= 'R' then
    same = due_before ~= '' and tonumber(due_before) == tonumber(due:match('%d+'))
  end
  return same and '=' or '!', stamp
end
