-- listed: the buckets of the history, each with its end, the oldest first.
local function listed()
  return call('ZRANGEBYSCORE', prefix .. 'histories', '-inf', 'inf', 'WITHSCORES')
end
