-- route: refuses a call that knows another table of lanes, or another protocol, than this lane
-- has, before the first write and the first answer: "ROUTE" and what the lane has. The route comes
-- after all other arguments; the net puts it there (net/scripts.py). "" asks for nothing. A script
-- takes part by the line of this part after its prelude, where it knows `prefix`.
local route = ARGV[#ARGV]
if route ~= '' then
  local there = call('HGET', prefix .. 'policy', 'route')
  if there ~= route then
    return redis.error_reply('ROUTE ' .. (there or 'none'))
  end
end
