-- arrival: what a message meets when it is appended. Needs what append.lua binds, and: memory, wake, take, bury.
local function look() -- what is known of these messages; reads only. An error text for a score that can't be
  local dedup, mark_us, entries, groups = tonumber(policy[4] or 0), tonumber(policy[5] or 0), {}, {}
  for i = 1, (sequence or is_replace or on_late ~= 'handle') and total or 0 do -- who looks at no group saves a loop
    local group, id, score = word_of(i); groups[i] = group
    local number = sequence and tonumber(score)
    if sequence and not (number and number >= 0 and number % 1 == 0) then
      return 'SEQUENCE the score of id ' .. id .. ' is no whole number from 0'
    end
    if is_replace then call('ZCARD', prefix .. 'order:' .. group); call('HLEN', prefix .. 'body:' .. group) end
  end
  if not is_replace then
    for _, key in ipairs(known('seen', dedup)) do
      for i = 1, entries[1] and 0 or total do entries[i] = words[3 * i - 2] .. '\n' .. words[3 * i - 1] end
      for i, is_member in ipairs(call('SMISMEMBER', key, unpack(entries))) do seen[i] = seen[i] or is_member == 1 end
    end
  end
  if sequence or on_late ~= 'handle' then marked = marks_of(groups, mark_us) end
end

local function arrival(i, seconds, us) -- head of the record, score, and from when on it may be handled
  local score, due, flag, at, stamp = words[3 * i], due[i], '0', now, seconds .. us
  if due then
    at = tonumber(due); if sub(due, 1, 1) == '+' then at = now + at end
    due = fmt('%016.0f', at)
    flag = score == '' and 'T' or 'D'
    if score == '' then score = sub(due, 1, 10) .. '.' .. sub(due, 11) end
  elseif score == '' then flag, score = 'A', seconds .. '.' .. us end
  if window > 0 then at = math.max(at, tonumber(stamp) + window) end
  return stamp .. '0000' .. flag .. (due or ''), score, at
end

local LATE = {refuse = '<', drop = '~', dead_letter = 'x'}
local function fate_of(i, score, body) -- "+" to store it, else its mark
  local mark, group, id = marked and marked[i], word_of(i)
  if not (seen[i] or mark or sequence) then return '+' end
  local record = pcall('HGET', body, id)
  if type(record) == 'string' and not (is_replace and sequence) then return '+' end -- pending: to be compared, or replaced
  if type(record) == 'string' then -- to be replaced: its number stays what it is
    local pending = pcall('ZSCORE', prefix .. 'order:' .. group, sub(record, 1, 16) .. id)
    return tonumber(pending) == tonumber(score) and '+' or '!'
  end
  if seen[i] then return '=' end
  if not sequence then return tonumber(score) < tonumber(mark) and LATE[on_late] or '+' end
  local number = tonumber(score)
  if #pcall('ZRANGEBYSCORE', prefix .. 'order:' .. group, score, score, 'LIMIT', 0, 1) > 0 then return '#' end
  if not mark or number > tonumber(mark:match('%d+')) then return '+' end
  for first, last in mark:gmatch('(%d+)-(%d+)') do
    if number >= tonumber(first) and number <= tonumber(last) then return '+' end -- was skipped, and comes at last
  end
  return '='
end

local function compare(i, order, body) -- the mark of a message whose id is pending
  local old, id, score, due = call('HGET', body, words[3 * i - 1]), words[3 * i - 1], words[3 * i], due[i]
  local stamp, flag = sub(old, 1, 16), sub(old, 21, 21)
  local has_due = flag == 'D' or flag == 'T'
  local same = sub(old, has_due and 38 or 22) == ARGV[4 + i]
  if same and score ~= '' then same = tonumber(call('ZSCORE', order, stamp .. id) or 'nan') == tonumber(score) end
  if same and due and sub(due, 1, 1) ~= '+' and flag ~= 'R' then
    same = has_due and tonumber(sub(old, 22, 37)) == tonumber(due)
  end
  return (same and '=' or '!') .. stamp
end
