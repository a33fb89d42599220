-- memory: what stays known of handled messages, in two generations of bounded size each: `seen` (set: group, newline,
-- id) and `marks` (hash: group -> watermark). An entry is known for its window, at most for twice that; past its cap a
-- generation ends early. No key has a TTL. Needs: prefix, memory (hash of times, us), now, call.
local function check_memory() -- before the first write: Lua does not roll back when a key has another type
  call('HLEN', memory); call('SCARD', prefix .. 'seen'); call('HLEN', prefix .. 'marks')
end
local function known(name, window) -- the generations that may hold something still valid
  local times, keys = call('HMGET', memory, name .. ':last', name .. ':old'), {}
  if window > 0 and times[1] and now - times[1] <= window then keys[1] = prefix .. name end
  if window > 0 and times[2] and now - times[2] <= window then keys[#keys + 1] = prefix .. name .. ':old' end
  return keys
end
local function marks_of(groups, window) -- watermark of each group, or false
  local keys = known('marks', window)
  local found = keys[1] and call('HMGET', keys[1], unpack(groups)) or {}
  local older = keys[2] and call('HMGET', keys[2], unpack(groups)) or {}
  for i = 1, #groups do found[i] = found[i] or older[i] or false end
  return found
end
local function turn(name, window, cap, size) -- begins a new generation where the last one is over; before adding
  local new, old = prefix .. name, prefix .. name .. ':old'
  local times = call('HMGET', memory, name .. ':began', name .. ':last', name .. ':old')
  if times[3] and now - times[3] > window then call('UNLINK', old); call('HDEL', memory, name .. ':old') end
  if times[1] and (now - times[1] > window or call(size, new) >= cap) then
    call('UNLINK', old)
    if call('EXISTS', new) == 1 then call('RENAME', new, old) end
    call('HSET', memory, name .. ':old', times[2]); times[1] = false
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
local function remember_marks(pairs_, window, cap) -- group, watermark, group, watermark ...
  if #pairs_ == 0 or window <= 0 then return end
  turn('marks', window, cap, 'HLEN')
  for from = 1, #pairs_, 4000 do
    call('HSET', prefix .. 'marks', unpack(pairs_, from, math.min(from + 3999, #pairs_)))
  end
end
