-- redrive: puts dead letters back into their own places: same group, id, score and stamp, with fresh attempts.
-- KEYS[1] schedule zset; KEYS[2] leases hash; KEYS[3] failures hash; KEYS[4] dispatch list; KEYS[5] stats hash
-- KEYS[6] dead zset; KEYS[7] letters hash; KEYS[8] clock string
-- KEYS[9] policy hash; KEYS[10] memory hash
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] letters  JSON [letter, ...]: 16-digit stamp, group, newline, id; at most 1000
-- ARGV[3] now_us   "" for the server's time
-- RETURN  one character a letter: "+" put back, "-" not there, "=" its id is pending again and it stays
-- ERROR   OOM at maxmemory (SET is refused, and comes first)
local schedule, leases, failures, dispatch, stats = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, letters, clock_key, policy_key, memory = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local prefix, words, now = ARGV[1], cjson.decode(ARGV[2]), tonumber(ARGV[3])
local call, pcall, fmt, sub = redis.call, redis.pcall, string.format, string.sub
if not now then local t = call('TIME'); now = t[1] * 1000000 + t[2] end
local mark_us = tonumber(call('HGET', policy_key, 'mark_us') or 0)
--+ memory
--+ wake
check_memory(); call('ZCARD', dead); call('HLEN', letters); call('ZCARD', schedule); call('LLEN', dispatch); call('HLEN', stats)
for _, letter in ipairs(words) do
  local group = letter:match('^................([^\n]*)\n') or ''
  call('ZCARD', prefix .. 'order:' .. group); call('HLEN', prefix .. 'body:' .. group)
end
call('SET', clock_key, call('GET', clock_key) or fmt('%.0f', now))
local marks, count = {}, 0
for i, letter in ipairs(words) do
  local kept = call('HGET', letters, letter)
  local cut = letter:find('\n', 1, true)
  local stamp, group, id = sub(letter, 1, 16), cut and sub(letter, 17, cut - 1), cut and sub(letter, cut + 1)
  local score, record = (kept or ''):match('^([^\n]*)\n[^\n]*\n(.*)$')
  if not record then marks[i] = '-'
  else
    local start = (sub(record, 21, 21) == 'D' or sub(record, 21, 21) == 'T') and 38 or 22
    if call('HSETNX', prefix .. 'body:' .. group, id, stamp .. '0000R' .. sub(record, start)) == 1 then
      local mark = marks_of({group}, mark_us)[1] or ''
      if sub(mark, 1, 1) == '#' then call('HSETNX', numbers, group, mark) end
      call('ZADD', prefix .. 'order:' .. group, score, stamp .. id)
      call('ZREM', dead, letter); call('HDEL', letters, letter)
      wake(group, now)
      marks[i], count = '+', count + 1
    else marks[i] = '=' end
  end
end
if count > 0 then pcall('HINCRBY', stats, 'redriven', count) end
return table.concat(marks)
