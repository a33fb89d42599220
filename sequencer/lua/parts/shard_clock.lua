-- shard_clock: the shard's clock, in us; an error, before the first write, for one that only others
-- can have written.
--+ read_clock
local function shard_clock()
  local text = call('GET', clock_key) or '0'
  return read_clock(text) or error('CLOCK of the shard reads ' .. text:sub(1, 30))
end
