-- more_due: what is said of groups that are due and were not taken. "1" if there are some, and
-- then a hint wakes one more consumer; else "0". `passed`: how many of `due` were looked at.
local function more_due(due, passed, taken, hints)
  local is_more = #due > passed
  if not is_more and passed > taken then
    is_more = call('ZCOUNT', schedule, '-inf', now_text) > 0
  end
  if not is_more then
    call('DEL', dispatch)
  elseif hints == 0 then
    call('RPUSH', dispatch, due[#due])
  end
  return is_more and '1' or '0'
end
