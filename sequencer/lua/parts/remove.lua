-- remove: takes handled messages out of their group, each only where it is still the message that
-- was claimed: an append with "replace" may have put another under its id.
local found = {} -- one table for all groups; each uses as much of it as it needs

-- Those of `found` that are still the ones that were claimed: how many, and which, by position.
local function remove_changed(body, members, from, count)
  local records = pcall('HMGET', body, unpack(found, 1, count))
  local removed, which = 0, {}
  for j = 1, count do
    local id, record = found[j], records[j]
    if record and sub(record, 1, 16) == sub(members[from + j - 1], 1, 16) then
      removed = removed + call('HDEL', body, id)
      which[j] = true
    end
  end
  return removed, which
end

-- How many there were, and which, nil for all; adds group, newline, id of each to `ids`.
local function remove(group, members, from, count, ids, order)
  local body = prefix .. 'body:' .. group
  local name, n = group .. '\n', #ids
  for j = 1, count do
    local id = sub(members[from + j - 1], 17)
    found[j] = id
    ids[n + j] = name .. id
  end
  local removed = pcall('ZREM', order, unpack(members, from, from + count - 1))
  if type(removed) == 'table' and not removed.err:find('WRONGTYPE') then -- a right is missing
    for j = n + count, n + 1, -1 do
      ids[j] = nil
    end
    return 0, {}
  end
  if removed ~= count then return remove_changed(body, members, from, count) end
  return tonumber(pcall('HDEL', body, unpack(found, 1, count))) or 0
end
