-- fate: what becomes of a message, by what is there already. Needs: ARGV, prefix, call, pcall, sub,
-- word_of.
--+ append/message
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
