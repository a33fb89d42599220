-- memory: what stays known of handled messages, in two generations of bounded size each: `seen` (set: group, newline,
-- id) and `marks` (hash: group -> watermark). An entry is known for its window, at most for twice that; past its cap a
-- generation ends early. No key has a TTL. While a group of a sequence has messages, its watermark is in `numbers`, which
-- forgets nothing. Needs: prefix, memory (hash of times, us), now, call, fmt.
local numbers = prefix .. 'numbers'
local function check_memory() -- before the first write: Lua does not roll back
  call('HLEN', memory); call('SCARD', prefix .. 'seen'); call('HLEN', prefix .. 'marks'); call('HLEN', numbers)
end
local function known(name, window) -- the generations that may hold something still valid
  local times, keys = call('HMGET', memory, name .. ':last', name .. ':old'), {}
  if window > 0 and times[1] and now - times[1] <= window then keys[1] = prefix .. name end
  if window > 0 and times[2] and now - times[2] <= window then keys[#keys + 1] = prefix .. name .. ':old' end
  return keys
end
local function marks_of(groups, window) -- watermark of each group, or false
  local keys, found = known('marks', window), {}
  if call('EXISTS', numbers) == 1 then table.insert(keys, 1, numbers) end
  for _, key in ipairs(keys) do
    for i, mark in ipairs(call('HMGET', key, unpack(groups))) do found[i] = found[i] or mark end
  end
  for i = 1, #groups do found[i] = found[i] or false end
  return found
end
-- A new generation begins where the last one is over; before adding. Others may have written these times: one that is
-- no number counts as none, since the messages are removed by now, and an error would leave one half of that done.
local function turn(name, window, cap, size)
  local new, times = prefix .. name, call('HMGET', memory, name .. ':began', name .. ':last', name .. ':old')
  local old = new .. ':old'; for i = 1, 3 do times[i] = tonumber(times[i] or nil) end
  if times[3] and now - times[3] > window then call('UNLINK', old); call('HDEL', memory, name .. ':old') end
  if times[1] and (now - times[1] > window or call(size, new) >= cap) then
    call('UNLINK', old)
    if call('EXISTS', new) == 1 then call('RENAME', new, old) end
    call('HSET', memory, name .. ':old', fmt('%.0f', times[2] or now)); times[1] = nil
  end
  if not times[1] then call('HSET', memory, name .. ':began', fmt('%.0f', now)) end
  call('HSET', memory, name .. ':last', fmt('%.0f', now))
end
local function remember_ids(entries, window, cap)
  if #entries == 0 or window <= 0 then return end
  turn('seen', window, cap, 'SCARD')
  for from = 1, #entries, 4000 do
    call('SADD', prefix .. 'seen', unpack(entries, from, math.min(from + 3999, #entries)))
  end
end
local function add_marks(pairs_, window, cap)
  if #pairs_ == 0 or window <= 0 then return end
  turn('marks', window, cap, 'HLEN')
  for from = 1, #pairs_, 4000 do
    call('HSET', prefix .. 'marks', unpack(pairs_, from, math.min(from + 3999, #pairs_)))
  end
end
local function remember_marks(pairs_, window, cap) -- group, watermark, group, watermark ...; after its messages are gone
  if not pairs_[2] or string.sub(pairs_[2], 1, 1) ~= '#' then return add_marks(pairs_, window, cap) end
  local ended = {}
  for i = 1, #pairs_, 2 do
    if call('EXISTS', prefix .. 'order:' .. pairs_[i]) == 1 then call('HSET', numbers, pairs_[i], pairs_[i + 1])
    else
      call('HDEL', numbers, pairs_[i]); ended[#ended + 1] = pairs_[i]; ended[#ended + 1] = pairs_[i + 1]
    end
  end
  add_marks(ended, window, cap)
end
local function retire(group, window, cap) -- a group that has no messages any more, whatever took the last
  local mark = call('HGET', numbers, group)
  if mark then remember_marks({group, mark}, window, cap) end
end
