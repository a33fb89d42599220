-- range_of: the members of a group in order, from its head on. Needs: pcall.
-- A group in hand: [member, ...] where stride is 1, [member, score, ...] where it is 2; or its
-- error.
local function range_of(order, last, is_scored)
  if is_scored then return pcall('ZRANGE', order, 0, last, 'WITHSCORES'), 2 end
  return pcall('ZRANGE', order, 0, last), 1
end
