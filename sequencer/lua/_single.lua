-- single: the short way for one message that nothing special is to be said of: no policy concerns it, and its id is new.
-- Where it finds something else, it leaves all as it was, and the long way looks again.
-- Needs what append.lua binds before it.
if #words == 1 and is_plain and not words[1][4] then
  local i, group, id, score = 1, words[1][1], words[1][2], words[1][3]
  local order, body, entry = prefix .. 'order:' .. group, prefix .. 'body:' .. group, group .. '\n' .. id
  local dedup, is_seen, visible = tonumber(policy[1] or 0), false, tonumber(call('ZSCORE', schedule, group) or 'nan')
  local times = dedup > 0 and call('HMGET', memory, 'seen:last', 'seen:old') or {}
  for k, key in ipairs({'seen', 'seen:old'}) do
    is_seen = is_seen or (times[k] and now - times[k] <= dedup and call('SMISMEMBER', prefix .. key, entry)[1] == 1)
  end
  local wakes = visible ~= visible
  if visible > now and visible ~= 9e15 then -- as `wake` does
    wakes = call('HEXISTS', leases, group) == 0 and call('HEXISTS', failures, group) == 0
  end
  local hinted, before = wakes and call('LLEN', dispatch), lane_clock()
  local stamp = fmt('%.0f', math.max(before + 1, now))
  local new = not is_seen and call('SET', clock_key, stamp) and pcall('HSETNX', body, id, stamp .. '00000' .. ARGV[4 + i])
  if new == 1 then
    local added = pcall('ZADD', order, score ~= '' and score or sub(stamp, 1, -7) .. '.' .. sub(stamp, -6), stamp .. id)
    if type(added) == 'table' then call('HDEL', body, id); return added end
    if wakes then call('ZADD', schedule, fmt('%.0f', now), group) end
    if hinted == 0 then call('RPUSH', dispatch, group) end
    pcall('HINCRBY', stats, 'appended', 1)
    return '+' .. stamp
  end
  if new then call('SET', clock_key, fmt('%.0f', before)) end
end
