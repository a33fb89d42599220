-- retire: the watermark of a group that has no messages any more, whatever took the last, is
-- forgotten in time.
--+ memory/numbers
--+ memory/remember_marks
local function retire(group, window, cap)
  local mark = call('HGET', numbers, group)
  if mark then
    remember_marks({group, mark}, window, cap)
  end
end
