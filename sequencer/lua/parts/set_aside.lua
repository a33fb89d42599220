-- set_aside: keeps a message as a dead letter, under its stamp, group and id: `dead` (zset: letter
-- -> when it died, us) and `dead_letters` (hash: letter -> score, newline, failure as JSON, newline
-- and record). Each dies later than the one before, also where the clock was set back: who was
-- notified of all up to a time (lua/pending_news.lua) misses none.
--+ memory/again
local function letter_of(group, member)
  return sub(member, 1, 16) .. group .. '\n' .. sub(member, 17)
end

local function set_aside(group, member, score, record, failure)
  local letter = letter_of(group, member)
  local last = tonumber(call('HGET', prefix .. 'memory', 'dead_us') or nil) or 0
  local died = fmt('%.0f', math.max(now, last + 1))
  call('HSET', prefix .. 'memory', 'dead_us', died)
  call('ZADD', prefix .. 'dead', died, letter)
  call('HSET', prefix .. 'dead_letters', letter, score .. '\n' .. failure .. '\n' .. record)
  forget_again(group, sub(member, 17))
end
