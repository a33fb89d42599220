-- single: the short way for one message that nothing special is to be said of: no policy concerns it, and its id is new.
-- Where it finds something else, it leaves all as it was, and the long way looks again: also whether the window of an id
-- that was seen is over.
-- Needs what append.lua binds before it.
if words == '' and is_plain and not dry_run and (on_conflict == 'none' or on_conflict == 'error' or on_conflict == 'others') then
  local dedup, is_seen, visible = tonumber(policy[4] or 0), false, tonumber(call('ZSCORE', schedule, group) or 'nan')
  local times = dedup > 0 and call('HMGET', prefix .. 'memory', 'seen:last', 'seen:old') or {}
  for k, key in ipairs((times[1] or times[2]) and {'seen', 'seen:old'} or {}) do
    is_seen = is_seen or times[k] and call('SMISMEMBER', prefix .. key, group .. '\n' .. id)[1] == 1
  end
  local wakes = visible ~= visible
  if visible > now and visible ~= 9e15 then -- as `wake` does
    wakes = call('HEXISTS', prefix .. 'leases', group) == 0 and call('HEXISTS', prefix .. 'failures', group) == 0
  end
  local hinted, before = wakes and call('LLEN', dispatch), lane_clock()
  local stamp, order, body = fmt('%.0f', math.max(before + 1, now)), prefix .. 'order:' .. group, prefix .. 'body:' .. group
--+ rights
  local new = not is_seen and call('SET', clock_key, stamp) and pcall('HSETNX', body, id, stamp .. (score == '' and '0000A' or '00000') .. envelope)
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
