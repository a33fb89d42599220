-- claim: leases due groups of one lane, longest due first, and reads their first messages.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] clock string; KEYS[4] dispatch list; KEYS[5] stats hash
-- KEYS[6] failures hash
-- ARGV[1] prefix       of the lane's keys
-- ARGV[2] owner        who asks, any text
-- ARGV[3] lease_ms     until the lease ends
-- ARGV[4] max_groups
-- ARGV[5] max_messages
-- ARGV[6] max_bytes    of records; one message always fits
-- ARGV[7] now_us       "" for the server's time
-- RETURN  idle: [now_us, next visible-at in us or "", groups, parked groups]
-- RETURN  else: [now_us, token, JSON [[group, owner whose lease expired or "", member, score, bytes, ...], ...], records]
-- A due group that still has a lease: it expired. If its consumer held no other group, its head's attempts go up. It is
-- claimed alone with one message: what kills a consumer is not blamed on its neighbours, and shows itself the next time.
local schedule, leases, clock_key, dispatch, stats, failures = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local prefix, owner, lease_ms, max_groups = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local room, bytes, now = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local call, pcall, fmt, sub = redis.call, redis.pcall, string.format, string.sub
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
if not now then local t = call('TIME'); now = t[1] * 1000000 + t[2] end
call('HLEN', stats); call('HLEN', failures); local hints, clock = call('LLEN', dispatch), tonumber(call('GET', clock_key) or 0)
local due = call('ZRANGEBYSCORE', schedule, '-inf', fmt('%.0f', now), 'LIMIT', 0, max_groups + 1)
if #due == 0 then
  call('DEL', dispatch) -- nothing is due, so every hint is stale
  return {now, call('ZRANGE', schedule, 0, 0, 'WITHSCORES')[2] or '', call('ZCARD', schedule), call('ZCOUNT', schedule, 'inf', 'inf')}
end
local leased, groups, records, visibles, holders, passed = call('HMGET', leases, unpack(due)), {}, {}, {}, {}, 0
local visible, token = fmt('%.0f', now + lease_ms * 1000), fmt('%.0f', math.max(clock + 1, now))

-- Reads records in growing steps, so that large bodies are not read far past max_bytes.
local function read(entry, range, body, expired)
  local from, step, total = 1, 16, #range / 2
  while from <= total and bytes > 0 do
    local ids, last = {}, math.min(total, from + step - 1)
    for j = from, last do ids[#ids + 1] = sub(range[2 * j - 1], 17) end
    local values = pcall('HMGET', body, unpack(ids))
    for j, id in ipairs(ids) do
      local value, n, at = values[j] or '', #entry, 2 * (from + j) - 3
      if expired and sub(expired, 17, 17) == '1' and value ~= '' then
        value = sub(value, 1, 16) .. fmt('%04d', math.min((tonumber(sub(value, 17, 20)) or 0) + 1, 9999)) .. sub(value, 21)
        call('HSET', body, id, value)
      end
      bytes = bytes - #value
      if bytes < 0 and (#groups > 0 or n > 2) then return end
      entry[n + 1], entry[n + 2], entry[n + 3] = range[at], range[at + 1], #value
      records[#records + 1], room = value, room - 1
    end
    from, step = last + 1, math.min(step * 4, 1000)
  end
end

for i, group in ipairs(due) do
  local expired = leased[i]
  if #groups == max_groups or room <= 0 or bytes <= 0 or (expired and #groups > 0) then break end
  local range = pcall('ZRANGE', prefix .. 'order:' .. group, 0, expired and 0 or room - 1, 'WITHSCORES')
  local entry = {group, expired and sub(expired, 18) or ''}
  if range.err then
    call('ZADD', schedule, 'inf', group); call('HDEL', leases, group)
    call('HSET', failures, group, cjson.encode({type = 'Broken', message = range.err}))
  elseif #range == 0 then call('ZREM', schedule, group); call('HDEL', leases, group) -- deleted by hand
  else read(entry, range, prefix .. 'body:' .. group, expired) end
  if #range > 0 and #entry == 2 then break end -- its first record does not fit
  passed = i
  if #entry > 2 then
    local n = 2 * #groups; groups[#groups + 1] = entry
    visibles[n + 1], visibles[n + 2], holders[n + 1], holders[n + 2] = visible, group, group, token .. '0' .. owner
    if expired then call('HINCRBY', stats, 'expired', 1); break end
  end
end
if #groups > 0 then
  if #groups == 1 then holders[2] = token .. '1' .. owner end
  call('SET', clock_key, token)
  call('ZADD', schedule, unpack(visibles)); call('HSET', leases, unpack(holders))
end
if #due == passed then call('DEL', dispatch)
elseif hints == 0 then call('RPUSH', dispatch, due[#due]) end -- wakes one more consumer for the rest
return {now, token, cjson.encode(groups), table.concat(records)}
