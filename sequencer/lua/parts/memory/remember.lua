-- remember: keeps ids and watermarks of handled messages for their windows.
--+ memory/known
-- How much the newest generation holds, by name; only where it grew a moment ago, and so needs no
-- look whether it is over.
local fresh = {}

-- The keys have their types: asked before the first write. How many groups have a number.
local function check_memory()
  local times = call('HMGET', memory, 'dedup:last', 'watermarks:last')
  local seen, marks = call('SCARD', prefix .. 'dedup'), call('HLEN', prefix .. 'watermarks')
  if now <= (tonumber(times[1] or nil) or 0) then fresh.dedup = seen end
  if now <= (tonumber(times[2] or nil) or 0) then fresh.watermarks = marks end
  return call('HLEN', sequences)
end

-- A new generation begins where the last one is over; before adding. Times that others wrote count
-- as none: the messages are removed by now. Whether one began.
local function turn(name, window, cap, size)
  if fresh[name] and fresh[name] < cap then return false end
  local new, text = prefix .. name, fmt('%.0f', now)
  local old = new .. ':old'
  local times = call('HMGET', memory, name .. ':began', name .. ':last', name .. ':old')
  local began, last = tonumber(times[1] or nil), tonumber(times[2] or nil)
  local ended = tonumber(times[3] or nil)
  if ended and now - ended > window then
    call('UNLINK', old)
    call('HDEL', memory, name .. ':old')
  end
  if began and (now - began > window or call(size, new) >= cap) then
    call('UNLINK', old)
    if call('EXISTS', new) == 1 then call('RENAME', new, old) end
    call('HSET', memory, name .. ':old', fmt('%.0f', last or now),
      name .. ':old_began', fmt('%.0f', began))
    began = nil
  end
  if not began then call('HSET', memory, name .. ':began', text) end
  -- A little ahead, and looked at again only then: this is a tenth of an ack of one message.
  call('HSET', memory, name .. ':last', fmt('%.0f', now + math.floor(window / 1000)))
  fresh[name] = nil
  return not began
end

local function remember_ids(entries, window, cap) -- group, newline, id of each
  if #entries == 0 or window <= 0 then return end
  turn('dedup', window, cap, 'SCARD')
  for from = 1, #entries, 4000 do
    call('SADD', prefix .. 'dedup', unpack(entries, from, math.min(from + 3999, #entries)))
  end
end

-- A generation begins with a field "" of 65 bytes: so it is a hash table from the first on. In the
-- packed form of a hash a look for one group goes through up to 512.
local function add_marks(pairs_, window, cap)
  if #pairs_ == 0 or window <= 0 then return end
  if turn('watermarks', window, cap, 'HLEN') then
    call('HSET', prefix .. 'watermarks', '', ('-'):rep(65))
  end
  for from = 1, #pairs_, 4000 do
    call('HSET', prefix .. 'watermarks', unpack(pairs_, from, math.min(from + 3999, #pairs_)))
  end
end

local function remember_marks(pairs_, window, cap) -- group, watermark, group, watermark ...
  if not pairs_[2] or string.sub(pairs_[2], 1, 1) ~= '#' then
    add_marks(pairs_, window, cap)
    return
  end
  local ended = {}
  for i = 1, #pairs_, 2 do
    local group, mark = pairs_[i], pairs_[i + 1]
    if call('EXISTS', prefix .. 'order:' .. group) == 1 then
      call('HSET', sequences, group, mark)
    else
      call('HDEL', sequences, group)
      ended[#ended + 1] = group
      ended[#ended + 1] = mark
    end
  end
  add_marks(ended, window, cap)
end

-- Of a group that has no messages any more, whatever took the last.
local function retire(group)
  local mark = call('HGET', sequences, group)
  if mark then
    local policy = call('HMGET', prefix .. 'policy', 'mark_us', 'mark_cap')
    remember_marks({group, mark}, tonumber(policy[1] or 0), tonumber(policy[2] or 0))
  end
end

-- A group that has no messages any more leaves nothing but its watermark.
local function forget(group)
  call('ZREM', schedule, group)
  call('HDEL', leases, group)
  call('HDEL', failures, group)
  retire(group)
end
