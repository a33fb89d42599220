-- listed: the buckets of the history, each with its end, the oldest first.
local function listed()
  return call('ZRANGE', prefix .. 'histories', 0, -1, 'WITHSCORES')
end
