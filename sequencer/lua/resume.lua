-- resume: lets a parked or waiting group go on at once, with fresh attempts; may first remove its failed head.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] failures hash; KEYS[4] dispatch list; KEYS[5] stats hash
-- KEYS[6] policy hash; KEYS[7] memory hash
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] group
-- ARGV[3] failure  the bytes the caller saw; "" for none. Compared, so that nobody skips what they did not see
-- ARGV[4] member   of that failure; "" for none
-- ARGV[5] skip     "1": remove the member first
-- ARGV[6] mark     the group's watermark once the member is passed, "" to leave it
-- ARGV[7] now_us   "" for the server's time
-- RETURN  [status, score, record]: "resumed", "due" (nothing to do), "leased", "changed", "missing", "unfailed";
--         score and record are those of a removed message, else ""
local schedule, leases, failures, dispatch, stats = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local policy_key, memory = KEYS[6], KEYS[7]
local prefix, group, failure, member, skip, mark, now = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
local call, pcall, sub, fmt = redis.call, redis.pcall, string.sub, string.format
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
if not now then local t = call('TIME'); now = t[1] * 1000000 + t[2] end
local visible = call('ZSCORE', schedule, group)
if not visible then return {'missing', '', ''} end
if call('HEXISTS', leases, group) == 1 and tonumber(visible) < 9e15 then return {'leased', '', ''} end
if (call('HGET', failures, group) or '') ~= failure then return {'changed', '', ''} end
if skip == '1' and member == '' then return {'unfailed', '', ''} end
if skip ~= '1' and tonumber(visible) <= now then return {'due', '', ''} end
if failure == '' and visible ~= 'inf' then return {'unfailed', '', ''} end -- delayed, paused: a claim decides when
local policy = call('HMGET', policy_key, 'dedup_us', 'dedup_cap', 'mark_us', 'mark_cap')
--+ memory
--+ remove
check_memory(); call('LLEN', dispatch); call('HLEN', stats); call('ZCARD', schedule)
local order, body, id = prefix .. 'order:' .. group, prefix .. 'body:' .. group, sub(member, 17)
local score, record = '', ''
if member ~= '' then
  record, score = call('HGET', body, id) or '', call('ZSCORE', order, member) or ''
  if sub(record, 1, 16) ~= sub(member, 1, 16) then record = '' end
  if skip == '1' then
    local ids = {}
    remove(group, {member}, 1, ids)
    remember_ids(ids, tonumber(policy[1] or 0), tonumber(policy[2] or 0))
    if mark ~= '' then remember_marks({group, mark}, tonumber(policy[3] or 0), tonumber(policy[4] or 0)) end
    pcall('HINCRBY', stats, 'skipped', 1)
  elseif record ~= '' then
    call('HSET', body, id, sub(record, 1, 16) .. '0000' .. sub(record, 21))
  end
end
call('HDEL', failures, group)
if call('EXISTS', order) == 0 then
  call('ZREM', schedule, group); call('HDEL', leases, group)
  retire(group, tonumber(policy[3] or 0), tonumber(policy[4] or 0))
elseif tonumber(visible) ~= 9e15 then -- a paused group stays so
  call('ZADD', schedule, fmt('%.0f', now), group)
  if call('LLEN', dispatch) == 0 then call('RPUSH', dispatch, group) end
end
return {'resumed', skip == '1' and score or '', skip == '1' and record or ''}
