-- look_up: what is known of a batch before it is stored; reads only.
--+ append/message
--+ memory/known
--+ due_score
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
  for _, key in ipairs(known('dedup', window)) do
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

-- A delayed message without a score gets its due time as its score. In which unit, says the
-- highest score of its group, else the group's watermark, else the first group that waits; its
-- producer may say it.
local function highest(group)
  return group and call('ZRANGE', prefix .. 'order:' .. group, -1, -1, 'WITHSCORES')[2]
end

local function add_units(batch, window)
  for i, due in pairs(batch.due) do
    local group, _, score = word_of(batch, i)
    if score == '' and not due:find('s', 1, true) then
      local known = highest(group) or marks_of({group}, window)[1]
        or highest(call('ZRANGE', schedule, 0, 0)[1])
      batch.due[i] = due .. unit_of(tonumber(known) or 0)
    end
  end
end
