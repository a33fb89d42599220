-- prelude: the words that every script uses, and the time.
local call, pcall = redis.call, redis.pcall
local sub, fmt = string.sub, string.format

-- The time that the caller gives; for "" the server's. As a number, and as text: to make that of a
-- number costs as much as a call.
local function time_us(now_us)
  if now_us == '' then
    local time = redis.call('TIME')
    now_us = time[1] .. sub('00000' .. time[2], -6)
  end
  return tonumber(now_us), now_us
end
