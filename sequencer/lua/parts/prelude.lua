-- prelude: the words that every script uses, and the time. Needs: nothing.
local call, pcall = redis.call, redis.pcall
local sub, fmt = string.sub, string.format

local function time_us(now_us) -- the time that the caller gives; for "" the server's
  if now_us ~= '' then return tonumber(now_us) end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
