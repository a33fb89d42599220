-- batch: stamps; and the quick way for messages that no policy concerns: those of one group are stored together. A group
-- that turns out to hold one of their ids is left as it was, for a closer look at each.
-- Needs what append.lua binds.
local base, high = clock % 1000000, sub(fmt('%.0f', clock), 1, -7)
local function stamp_of(i) -- in two parts: seconds, and us within
  local us = base + i
  if us < 1000000 then return high, fmt('%06d', us) end
  local text = fmt('%.0f', clock + i)
  return sub(text, 1, -7), sub(text, -6)
end

local function stored_at(i, group, at)
  stored[#stored + 1] = i
  if not first[group] then list[#list + 1] = group; first[group] = at
  elseif at < first[group] then first[group] = at end
end

local function parts_of(i) -- id, record, score, member
  local seconds, us = stamp_of(i)
  local id, score = words[i][2], words[i][3]
  local head = seconds .. us
  if score ~= '' then return id, head .. '00000' .. ARGV[3 + i], score, head .. id end
  return id, head .. '0000A' .. ARGV[3 + i], seconds .. '.' .. us, head .. id
end

local function store_several(positions, count, order, body) -- the answers to HSET, 0 where it was not called, and ZADD
  local ids, fields, places = {}, {}, {}
  for k = 1, count do
    local id, record, score, member = parts_of(positions[k])
    ids[k], fields[2 * k - 1], fields[2 * k], places[2 * k - 1], places[2 * k] = id, id, record, score, member
  end
  local found = pcall('HMGET', body, unpack(ids))
  for k = 1, found.err and 0 or count do found.err = found.err or found[k] end
  if found.err then return 0 end
  local new = pcall('HSET', body, unpack(fields))
  if new ~= count and type(new) == 'number' then call('HDEL', body, unpack(ids)) end -- an id stands twice
  return new, new == count and pcall('ZADD', order, unpack(places))
end

local function store(group, positions) -- whether all of them are stored; else none is, or `failure` says why
  local order, body, count, new, added = prefix .. 'order:' .. group, prefix .. 'body:' .. group, #positions, nil, nil
  if count > 1 then new, added = store_several(positions, count, order, body)
  else
    local id, record, score, member = parts_of(positions[1])
    new = pcall('HSETNX', body, id, record)
    added = new == 1 and pcall('ZADD', order, score, member)
  end
  if new ~= count then return false end
  for k = 1, count do stored_at(positions[k], group, now) end
  if type(added) == 'table' then failure = added end
  return true
end

local function store_groups() -- the positions that need a closer look, in their order
  if #words == 1 then return {1} end
  call('HDEL', failures, '') -- changes nothing; what undoing needs is asked for before there is anything to undo
  local groups, of, odd, closer = {}, {}, {}, {}
  for i, word in ipairs(words) do
    local group = word[1]
    if not is_plain or word[4] or seen[i] then odd[group] = true end
    if of[group] then of[group][#of[group] + 1] = i else groups[#groups + 1] = group; of[group] = {i} end
  end
  for _, group in ipairs(groups) do
    if not odd[group] and not failure and not store(group, of[group]) then odd[group] = true end
  end
  for i, word in ipairs(words) do if odd[word[1]] then closer[#closer + 1] = i end end
  return closer
end
