-- listed_by_score: what `listed` is, for one who appends and has no right to ZRANGE.
local function listed()
  return call('ZRANGEBYSCORE', prefix .. 'histories', '-inf', 'inf', 'WITHSCORES')
end
