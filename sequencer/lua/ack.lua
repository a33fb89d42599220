-- ack: removes handled messages of leased groups, and gives back those groups whose consumer is done with them.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] failures hash; KEYS[4] dispatch list; KEYS[5] stats hash
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] words    JSON [[group, token, "1" to release the group or "0", member, ...], ...]; members at most 1000 a group
-- ARGV[3] hint     "1": wake a consumer for released groups; "0": the caller claims next itself
-- ARGV[4] now_us   "" for the server's time
-- RETURN  [position from 1 of each entry whose token is not valid, ...]; nothing of those was changed
local schedule, leases, failures, dispatch, stats = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local prefix, words, hint, now = ARGV[1], cjson.decode(ARGV[2]), ARGV[3], ARGV[4]
local call, sub = redis.call, string.sub
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
if now == '' then local t = call('TIME'); now = string.format('%.0f', t[1] * 1000000 + t[2]) end
local groups = {}
for i, word in ipairs(words) do groups[i] = word[1] end
local leased = call('HMGET', leases, unpack(groups))
local stale, free, gone, visibles, cleared, handled = {}, {}, {}, {}, {}, 0
for i, word in ipairs(words) do
  local group, order = word[1], prefix .. 'order:' .. word[1]
  local held = leased[i]
  if not held or sub(held, 1, 16) ~= word[2] then
    stale[#stale + 1] = i
  else
    if #word > 3 then
      local ids = {}
      for j = 4, #word do ids[j - 3] = sub(word[j], 17) end
      local removed = redis.pcall('HDEL', prefix .. 'body:' .. group, unpack(ids))
      redis.pcall('ZREM', order, unpack(word, 4))
      handled = handled + (tonumber(removed) or 0)
      cleared[#cleared + 1] = group
    end
    if call('EXISTS', order) == 0 then
      gone[#gone + 1] = group
      free[#free + 1] = group
    elseif word[3] == '1' then
      visibles[#visibles + 1] = now
      visibles[#visibles + 1] = group
      free[#free + 1] = group
    end
  end
end
if #gone > 0 then call('ZREM', schedule, unpack(gone)) end
if #visibles > 0 then
  call('ZADD', schedule, unpack(visibles))
  if hint == '1' and call('LLEN', dispatch) == 0 then call('RPUSH', dispatch, visibles[2]) end
end
if #free > 0 then call('HDEL', leases, unpack(free)) end
if #cleared > 0 then call('HDEL', failures, unpack(cleared)) end
if handled > 0 then call('HINCRBY', stats, 'handled', handled) end
return stale
