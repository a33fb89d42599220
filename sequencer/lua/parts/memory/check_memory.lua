-- check_memory: the keys of what is remembered have their types. Asked before the first write: Lua
-- does not roll back.
--+ memory/sequences
--+ memory/fresh
-- Returns how many groups have a number.
local function check_memory()
  local times = call('HMGET', memory, 'dedup:last', 'watermarks:last')
  local seen, marks = call('SCARD', prefix .. 'dedup'), call('HLEN', prefix .. 'watermarks')
  if now <= (tonumber(times[1] or nil) or 0) then
    fresh.dedup = seen
  end
  if now <= (tonumber(times[2] or nil) or 0) then
    fresh.watermarks = marks
  end
  return call('HLEN', sequences)
end
