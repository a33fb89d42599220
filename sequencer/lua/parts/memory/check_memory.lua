-- check_memory: the keys of what is remembered have their types. Asked before the first write: Lua
-- does not roll back.
--+ memory/numbers
--+ memory/fresh
-- Returns how many groups have a number.
local function check_memory()
  local times = call('HMGET', memory, 'seen:last', 'marks:last')
  local seen, marks = call('SCARD', prefix .. 'seen'), call('HLEN', prefix .. 'marks')
  if now <= (tonumber(times[1] or nil) or 0) then
    fresh.seen = seen
  end
  if now <= (tonumber(times[2] or nil) or 0) then
    fresh.marks = marks
  end
  return call('HLEN', numbers)
end
