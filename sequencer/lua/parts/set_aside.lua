-- set_aside: keeps a message as a dead letter, under its stamp, group and id: `dead` (zset: letter
-- -> when it died, us) and `letters` (hash: letter -> score, newline, failure as JSON, newline,
-- record). Needs: prefix, now, call, fmt, sub, forget_again.
--+ memory/forget_again
local function letter_of(group, member)
  return sub(member, 1, 16) .. group .. '\n' .. sub(member, 17)
end

local function set_aside(group, member, score, record, failure)
  local letter = letter_of(group, member)
  call('ZADD', prefix .. 'dead', fmt('%.0f', now), letter)
  call('HSET', prefix .. 'letters', letter, score .. '\n' .. failure .. '\n' .. record)
  forget_again(group, sub(member, 17))
end
