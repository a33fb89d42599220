-- clock: the lane's clock; an error, before the first write, for one that only others can have written: a stamp made of it
-- would not have its 16 digits. Needs: clock_key, call.
local function read_clock(text)
  if text:match('^%d+$') and tonumber(text) < 9e15 then return tonumber(text) end
end
local function lane_clock()
  local text = call('GET', clock_key) or '0'
  return read_clock(text) or error('CLOCK of the lane reads ' .. sub(text, 1, 30))
end
