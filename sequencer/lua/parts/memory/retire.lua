-- retire: the watermark of a group that has no messages any more, whatever took the last, is
-- forgotten in time.
--+ memory/sequences
--+ memory/remember_marks
local function retire(group)
  local mark = call('HGET', sequences, group)
  if mark then
    local policy = call('HMGET', prefix .. 'policy', 'mark_us', 'mark_cap')
    remember_marks({group, mark}, tonumber(policy[1] or 0), tonumber(policy[2] or 0))
  end
end
