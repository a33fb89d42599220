-- by_group: the quick way for messages that no policy concerns: those of one group are stored together. A group that turns
-- out to hold one of their ids is left as it was, for a closer look at each.
-- Needs what append.lua binds, and: stamps.
local function store_several(positions, count, order, body) -- the answers to HSET, 0 where it was not called, and ZADD
  local ids, fields, places, parts_of = {}, {}, {}, parts_of
  for k = 1, count do
    local id, record, score, member = parts_of(positions[k])
    local n = 2 * k
    ids[k], fields[n - 1], fields[n], places[n - 1], places[n] = id, id, record, score, member
  end
  local found = pcall('HMGET', body, unpack(ids))
  for k = 1, found.err and 0 or count do found.err = found.err or found[k] end
  if found.err then return 0 end
  local new = pcall('HSET', body, unpack(fields))
  if new ~= count and type(new) == 'number' then call('HDEL', body, unpack(ids)) end -- an id stands twice
  return new, new == count and pcall('ZADD', order, unpack(places))
end

local function store(group, position, positions) -- whether all are stored; else none is, or `failure` says why
  local order, body, count, n, new, added = prefix .. 'order:' .. group, prefix .. 'body:' .. group, 1, #stored, nil, nil
  if positions then count = #positions; new, added = store_several(positions, count, order, body)
  else
    local id, record, score, member = parts_of(position)
    new = pcall('HSETNX', body, id, record)
    added = new == 1 and pcall('ZADD', order, score, member)
  end
  if new ~= count then return false end
  for k = 1, count do stored[n + k] = positions and positions[k] or position end
  list[#list + 1] = group
  if type(added) == 'table' then failure = added end
  return true
end

local function store_groups() -- the positions that need a closer look, in their order
  if total == 1 then return {1} end
  call('HDEL', failures, '') -- changes nothing; what undoing needs is asked for before there is anything to undo
  local groups, of, several, odd, closer = {}, {}, {}, {}, {} -- `of`: the first position of a group; a table costs more
  for i = 1, total do
    local group = words[3 * i - 2]
    local positions = several[group]
    if due[i] or seen[i] or not is_plain then odd[group] = true end
    if positions then positions[#positions + 1] = i
    elseif of[group] then several[group] = {of[group], i}
    else groups[#groups + 1] = group; of[group] = i end
  end
  for _, group in ipairs(groups) do
    if not odd[group] and not store(group, of[group], several[group]) then odd[group] = true end
  end
  for i = 1, next(odd) and total or 0 do if odd[words[3 * i - 2]] then closer[#closer + 1] = i end end
  return closer
end
