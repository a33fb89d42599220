-- hint: wakes a consumer, unless one was hinted already.
local function hint(group)
  if call('LLEN', dispatch) == 0 then
    call('RPUSH', dispatch, group)
  end
end
