-- hint: wakes a consumer, unless one was hinted already. What becomes due within SOON needs a hint:
-- an idle consumer waits for this many us unless it is hinted.
local SOON = 5200000

local function hint(group)
  if call('LLEN', dispatch) == 0 then call('RPUSH', dispatch, group) end
end
