-- range_of: the members of a group in order, from its head on. A group in progress: [member, ...]
-- where stride is 1, [member, score, ...] where it is 2; or its error.
local function range_of(order, last, is_scored)
  local to = last == 0 and '0' or last
  if is_scored then return pcall('ZRANGE', order, '0', to, 'WITHSCORES'), 2 end
  return pcall('ZRANGE', order, '0', to), 1
end
