-- lane_clock: the lane's clock, in us; an error, before the first write, for one that only others
-- can have written.
--+ read_clock
local function lane_clock()
  local text = call('GET', clock_key) or '0'
  return read_clock(text) or error('CLOCK of the lane reads ' .. text:sub(1, 30))
end
