-- by_group: the quick way for messages that no policy concerns: those of one group are stored
-- together, unless it holds one of their ids already. What is stored is noted in `done`: {stored =
-- positions, list = groups that got messages, failure}.
--+ append/message
local function store_several(batch, positions, order, body) -- the answer to ZADD; nil where none is
  local ids, fields, places = {}, {}, {}
  for k, position in ipairs(positions) do
    local id, record, score, member = parts_of(batch, position)
    local n = 2 * k
    ids[k] = id
    fields[n - 1] = id
    fields[n] = record
    places[n - 1] = score
    places[n] = member
  end
  local found = pcall('HMGET', body, unpack(ids))
  if found.err then return nil end
  for k = 1, #positions do
    if found[k] then return nil end
  end
  local new = pcall('HSET', body, unpack(fields))
  if new == #positions then return pcall('ZADD', order, unpack(places)) end
  if type(new) == 'number' then
    call('HDEL', body, unpack(ids)) -- an id stands twice
  end
  return nil
end

-- Whether all are stored; else none is, or `failure` says why.
local function store_group(batch, done, group, positions) -- a table; or a number, for one
  local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
  local stored, list = done.stored, done.list
  local added
  if type(positions) == 'number' then
    local id, record, score, member = parts_of(batch, positions)
    if pcall('HSETNX', body, id, record) ~= 1 then return false end
    added = pcall('ZADD', order, score, member)
    stored[#stored + 1] = positions
  else
    added = store_several(batch, positions, order, body)
    if not added then return false end
    for _, position in ipairs(positions) do
      stored[#stored + 1] = position
    end
  end
  list[#list + 1] = group
  if type(added) == 'table' then done.failure = added end
  return true
end

-- The positions that need a closer look, in their order.
local function store_groups(batch, done, is_plain)
  -- `of`: the positions of a group; a number for one: a table costs more.
  local groups, of, odd, closer = {}, {}, {}, {}
  local words, due, ledger, seen, total =
    batch.words, batch.due, batch.ledger, batch.seen, batch.total
  for i = 1, total do
    local group = words[3 * i - 2]
    local positions = of[group]
    if due[i] or ledger[i] or seen[i] or not is_plain then odd[group] = true end
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
    if odd[group] then closer[#closer + 1] = i end
  end
  return closer
end
