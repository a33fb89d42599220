-- taking: how much of what is due a claim takes, what is known of it, and what becomes of groups
-- that were due and are not taken.
--+ memory/known
--+ memory/remember
-- Half of the groups, so that other consumers find some, and the caller's next claim. Counted are
-- all that look due; one that is deferred then is taken for due once. Returns how many to take, and
-- how many are due; `due` keeps one more than is taken.
local function half_of(due, max_groups)
  local all = #due
  if all > max_groups then all = call('ZCOUNT', schedule, '-inf', now_text) end
  local most = math.max(1, math.min(max_groups, math.floor(all / 2)))
  for i = #due, most + 2, -1 do
    due[i] = nil
  end
  return most, all
end

-- Where so many groups are still due, also those left to others, none gets more than its part of
-- the room, an eighth of all of it at most if there are more: one that never ends would let the
-- others wait.
local function part_of(room, due, eighth)
  return math.min(room, due < 8 and math.ceil(room / math.max(1, due)) or eighth)
end

-- Of `count` groups from position `first` on: of full ones a claim takes few, and a look into a
-- small hash takes the longer the more it holds.
local function known_of(due, first, count, mark_us, some_paused)
  local last = math.min(#due, first + count - 1)
  local some = {unpack(due, first, last)}
  local held = call('HMGET', leases, unpack(some))
  local paused_of = some_paused and call('SMISMEMBER', paused, unpack(some)) or {}
  local marks = marks_of(some, mark_us)
  return {first = first, last = last, leased = held, marks = marks, paused = paused_of}
end

local function park_broken(group, error_text) -- whose order is no zset
  call('ZADD', schedule, 'inf', group)
  call('HDEL', leases, group)
  call('HSET', failures, group, cjson.encode({type = 'Broken', message = error_text}))
end

local function deferred(group, at) -- until its head may be handled; what the reply says of that
  local text = at < math.huge and fmt('%.0f', at) or ''
  call('ZADD', schedule, at < math.huge and text or 'inf', group)
  call('HDEL', leases, group)
  call('HDEL', failures, group) -- a failure would keep an append from waking it
  if at == math.huge then pcall('HINCRBY', stats, 'parked', 1) end
  return text
end

-- What is said of groups that are due and were not taken. "1" if there are some, and then a hint
-- wakes one more consumer; else "0". `passed`: how many of `due` were looked at. Suspects that were
-- left behind do not count: who may take them finds them.
local function more_due(due, passed, taken, left_behind, hints)
  local is_more = #due > passed
  if not is_more and passed > taken then
    is_more = call('ZCOUNT', schedule, '-inf', now_text) > left_behind
  end
  if not is_more then
    call('DEL', dispatch)
  elseif hints == 0 then
    call('RPUSH', dispatch, due[#due])
  end
  return is_more and '1' or '0'
end

-- JSON [[position, failure], ...]; nil where there is none.
local function failures_of(groups)
  local names, found = {}, {}
  for i, entry in ipairs(groups) do
    names[i] = entry[1]
  end
  for i, failure in ipairs(call('HMGET', failures, unpack(names))) do
    if failure then found[#found + 1] = {i, failure} end
  end
  return found[1] and cjson.encode(found) or nil
end
