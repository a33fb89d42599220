-- release: the groups of `valid` that have no messages any more leave the schedule, those to be given back become due.
-- Needs what ack.lua binds, and: memory.
local left, text = #orders > 0 and call('EXISTS', unpack(orders)) or 0, fmt('%.0f', now)
for i, word in ipairs(valid) do
  local group = word[1]
  if left == 0 or (left < #orders and call('EXISTS', orders[i]) == 0) then
    gone[#gone + 1] = group
    free[#free + 1] = group
  elseif word[3] == '1' then
    visibles[#visibles + 1] = text
    visibles[#visibles + 1] = group
    free[#free + 1] = group
  end
end
if #gone > 0 then call('ZREM', schedule, unpack(gone)) end
if call('EXISTS', numbers) == 1 then
  for _, group in ipairs(gone) do retire(group, tonumber(policy[3] or 0), tonumber(policy[4] or 0)) end
end
if #visibles > 0 then
  call('ZADD', schedule, unpack(visibles))
  if hint == '1' and call('LLEN', dispatch) == 0 then call('RPUSH', dispatch, visibles[2]) end
end
if #free > 0 then call('HDEL', leases, unpack(free)) end
