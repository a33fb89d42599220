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

local function store(group, positions) -- whether all of them are stored; else none is, or `failure` says why
  local body, order, fields, places, n, new = prefix .. 'body:' .. group, prefix .. 'order:' .. group, {}, {}, 0, nil
  for _, i in ipairs(positions) do
    local seconds, us = stamp_of(i)
    local stamp, id, score = seconds .. us, words[i][2], words[i][3]
    fields[n + 1], fields[n + 2] = id, stamp .. '00000' .. ARGV[4 + i]
    places[n + 1], places[n + 2], n = score ~= '' and score or seconds .. '.' .. us, stamp .. id, n + 2
    marks[2 * i - 1], marks[2 * i] = '+', stamp
  end
  if n == 2 then new = pcall('HSETNX', body, unpack(fields))
  else
    local ids = {}
    for k = 1, n, 2 do ids[#ids + 1] = fields[k] end
    local found = pcall('HMGET', body, unpack(ids))
    for k = 1, found.err and 0 or #ids do found.err = found.err or found[k] end
    if found.err then return false end
    new = pcall('HSET', body, unpack(fields))
    if new ~= #ids and type(new) == 'number' then call('HDEL', body, unpack(ids)) end -- an id stands twice
  end
  if new ~= n / 2 then return false end
  for _, i in ipairs(positions) do stored_at(i, group, now) end
  local added = pcall('ZADD', order, unpack(places))
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
