-- known: what stays known of handled messages, in two generations each: `dedup` (set: group,
-- newline, id) and `watermarks` (hash: group -> watermark). An entry is known for its window, at
-- most for twice that; past its cap a generation ends early. `memory` (hash) has their times. While
-- a group of a sequence has messages, its watermark is in `sequences`, which forgets nothing.
local sequences = prefix .. 'sequences'

-- The keys of the generations that may hold something still valid.
local function known(name, window)
  local times = call('HMGET', memory, name .. ':last', name .. ':old')
  local keys = {}
  if window > 0 and times[1] and now - times[1] <= window then
    keys[1] = prefix .. name
  end
  if window > 0 and times[2] and now - times[2] <= window then
    keys[#keys + 1] = prefix .. name .. ':old'
  end
  return keys
end

-- The watermark of each of some groups, or false.
local function marks_of(groups, window)
  local keys, found = known('watermarks', window), {}
  if call('EXISTS', sequences) == 1 then table.insert(keys, 1, sequences) end
  for _, key in ipairs(keys) do
    for i, mark in ipairs(call('HMGET', key, unpack(groups))) do
      found[i] = found[i] or mark
    end
  end
  for i = 1, #groups do
    found[i] = found[i] or false
  end
  return found
end
