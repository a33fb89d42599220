-- halt: groups that were due and are not taken.
--+ forget
local function park_broken(group, error_text) -- whose order is no zset
  call('ZADD', schedule, 'inf', group)
  call('HDEL', leases, group)
  call('HSET', failures, group, cjson.encode({type = 'Broken', message = error_text}))
end

local function deferred(group, at) -- until its head may be handled; what the reply says of that
  local text = at < math.huge and fmt('%.0f', at) or ''
  call('ZADD', schedule, at < math.huge and text or 'inf', group)
  call('HDEL', leases, group)
  call('HDEL', failures, group) -- a failure would keep an append from waking it
  if at == math.huge then
    pcall('HINCRBY', stats, 'parked', 1)
  end
  return text
end

-- What is said of groups that are due and were not taken. "1" if there are some, and then a hint
-- wakes one more consumer; else "0". `passed`: how many of `due` were looked at.
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
