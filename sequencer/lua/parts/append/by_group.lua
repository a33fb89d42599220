-- by_group: the quick way for messages that no policy concerns: those of one group are stored
-- together. A group that turns out to hold one of their ids is left for a closer look at each.
--+ append/store_group
-- The positions that need a closer look, in their order.
local function store_groups(batch, done, is_plain)
  -- `of`: the positions of a group; a number for one: a table costs more.
  local groups, of, odd, closer = {}, {}, {}, {}
  local words, due, ledger, seen, total =
    batch.words, batch.due, batch.ledger, batch.seen, batch.total
  for i = 1, total do
    local group = words[3 * i - 2]
    local positions = of[group]
    if due[i] or ledger[i] or seen[i] or not is_plain then
      odd[group] = true
    end
    if not positions then
      groups[#groups + 1] = group
      of[group] = i
    elseif type(positions) == 'number' then
      of[group] = {positions, i}
    else
      positions[#positions + 1] = i
    end
  end
  for _, group in ipairs(groups) do
    if not odd[group] and not store_group(batch, done, group, of[group]) then
      odd[group] = true
    end
  end
  for i = 1, next(odd) and total or 0 do
    local group = words[3 * i - 2]
    if odd[group] then
      closer[#closer + 1] = i
    end
  end
  return closer
end
