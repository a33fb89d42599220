-- pause: holds a group, or the shard, from the next claim on, or lets it go on. It survives
-- everything but its own end.
-- ARGV[1] group    "" for the whole shard
-- ARGV[2] is_paused "1" or "0"
-- RETURN  1 if that changed something, else 0
local group, is_paused = ARGV[1], ARGV[2] == '1'
--+ keys
--+ generation
--+ hint
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
call('LLEN', dispatch)
call('ZCARD', schedule)
local changed
if group == '' and is_paused then
  changed = call('HSET', policy_key, 'paused', '1')
elseif group == '' then
  changed = call('HDEL', policy_key, 'paused')
elseif is_paused then
  changed = call('SADD', paused, group)
else
  changed = call('SREM', paused, group)
  if tonumber(call('ZSCORE', schedule, group) or 0) == 9e15 then
    call('ZADD', schedule, now_text, group)
  end
end
if not is_paused and call('ZCARD', schedule) > 0 then
  hint(group) -- a consumer looks at once
end
return changed
