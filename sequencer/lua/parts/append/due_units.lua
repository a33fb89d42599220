-- due_units: a delayed message without a score gets its due time as its score. In which unit, says
-- the highest score of its group, else the group's watermark, else the first group that waits; its
-- producer may say it.
--+ append/message
--+ due_score
--+ memory/marks_of
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
