-- shard_clock: the shard's clock, in us.
-- Nil for one that only others can have written: a stamp of it would not have 16 digits.
local function read_clock(text)
  if text:match('^%d+$') and tonumber(text) < 9e15 then return tonumber(text) end
  return nil
end

-- An error, before the first write, for such a one.
local function shard_clock()
  local text = call('GET', clock_key) or '0'
  return read_clock(text) or error('CLOCK of the shard reads ' .. text:sub(1, 30))
end
