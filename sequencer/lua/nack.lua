-- nack: the handler of a leased group's head failed; the group waits, or is parked, with the failure kept.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] failures hash; KEYS[4] stats hash
-- ARGV[1] prefix     of the lane's keys
-- ARGV[2] group      ARGV[3] token (16 digits)   ARGV[4] member
-- ARGV[5] attempts   how often the message has been tried now; set, not added, so that a repeat is harmless
-- ARGV[6] delay_ms   until the group may be claimed again; "" parks it
-- ARGV[7] failure    bytes to keep
-- ARGV[8] now_us     "" for the server's time
-- RETURN  1, or 0 when the token is not valid: nothing was changed
local schedule, leases, failures, stats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix, group, token, member, attempts = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local delay_ms, failure, now = ARGV[6], ARGV[7], tonumber(ARGV[8])
local call, sub = redis.call, string.sub
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
local held = call('HGET', leases, group)
if not held or sub(held, 1, 16) ~= token then return 0 end
if not now then local t = call('TIME'); now = t[1] * 1000000 + t[2] end
local body, id = prefix .. 'body:' .. group, sub(member, 17)
local value = redis.pcall('HGET', body, id)
if type(value) == 'string' then
  call('HSET', body, id, sub(value, 1, 16) .. string.format('%04d', attempts) .. sub(value, 21))
end
call('HSET', failures, group, failure)
local visible = delay_ms == '' and 'inf' or string.format('%.0f', now + tonumber(delay_ms) * 1000)
call('ZADD', schedule, visible, group)
call('HDEL', leases, group)
call('HINCRBY', stats, delay_ms == '' and 'parked' or 'failed', 1)
return 1
