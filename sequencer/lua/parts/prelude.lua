-- prelude: the words that every script uses, and the time.
local call, pcall = redis.call, redis.pcall
local sub, fmt = string.sub, string.format

-- The last argument but one, before the generation, is the time of a test in us, or "" for the
-- server's. As a number, and as text: to make that of a number costs as much as a call.
local function time_us()
  local now_us = ARGV[#ARGV - 1]
  if now_us == '' then
    local time = redis.call('TIME')
    now_us = time[1] .. sub('00000' .. time[2], -6)
  end
  return tonumber(now_us), now_us
end
