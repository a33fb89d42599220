-- wake: lets a group be looked at by `at`, or adds it; a claim decides whether its head may be
-- handled then. A group that is leased, backs off, is parked behind a failure, or is paused stays
-- as it is.
--+ hint
local PAUSED = 9e15

local function wake(group, at)
  if at < now then at = now end
  local visible = tonumber(call('ZSCORE', schedule, group) or 'nan')
  if visible == visible then
    if visible <= at or visible == PAUSED then return end
    if call('HEXISTS', leases, group) == 1 then return end
    if call('HEXISTS', failures, group) == 1 then return end
  end
  call('ZADD', schedule, fmt('%.0f', at), group)
  if at <= now + SOON and call('LLEN', dispatch) < 1000 then
    call('RPUSH', dispatch, group)
  end
end
