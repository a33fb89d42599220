-- renew: prolongs the leases of groups whose handler still runs.
-- ARGV[1] words      JSON [[group, token], ...]
-- ARGV[2] lease_ms   from now on
-- ARGV[3] alone      "1": as if nothing else had been claimed with them, so that a lease that runs
--                    out counts as an attempt of its head
-- RETURN  [position from 1 of each entry whose token is not valid, ...]; nothing of those was
--         changed
local words = cjson.decode(ARGV[1])
local lease_ms = tonumber(ARGV[2])
local is_alone = ARGV[3] == '1'
--+ keys
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
local visible = fmt('%.0f', now + lease_ms * 1000)
local groups, stale = {}, {}
for i, word in ipairs(words) do
  groups[i] = word[1]
end
local leased = call('HMGET', leases, unpack(groups))
for i, word in ipairs(words) do
  local held = leased[i]
  if held and sub(held, 1, 16) == word[2] then
    call('ZADD', schedule, 'XX', visible, word[1])
    if is_alone then
      call('HSET', leases, word[1], word[2] .. '1' .. sub(held, 18))
    end
  else
    stale[#stale + 1] = i
  end
end
return stale
