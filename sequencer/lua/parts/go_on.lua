-- go_on: a group that lost its head, or may try it again: due at `visible`, "" for one that stays
-- as it is scheduled.
--+ hint
--+ memory/remember
local function go_on(group, visible)
  if call('EXISTS', prefix .. 'order:' .. group) == 0 then
    forget(group)
  elseif visible ~= '' then
    call('ZADD', schedule, visible, group)
    if tonumber(visible) <= now + SOON then hint(group) end
  end
end
