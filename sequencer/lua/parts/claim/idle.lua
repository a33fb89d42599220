-- idle: the answer where nothing is due. `probe_us`: when an outage that holds the shard back is
-- probed next, else false; `only`: the group that alone was asked for, else "".
local function idle_reply(is_paused, probe_us, only)
  if only == '' then
    call('DEL', dispatch) -- nothing is due, so every hint is stale
  end
  local count = call('ZCARD', schedule)
  if is_paused then return {now, '', count, count} end
  local next_at = call('ZRANGE', schedule, 0, 0, 'WITHSCORES')[2] or ''
  if probe_us and next_at ~= '' and tonumber(next_at) < probe_us then
    next_at = fmt('%.0f', probe_us)
  end
  return {now, next_at, count, call('ZCOUNT', schedule, 9e15, 'inf')}
end
