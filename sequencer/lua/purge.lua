-- purge: deletes dead letters for good; recorded in the history, where one is kept.
-- KEYS[1] dead zset; KEYS[2] letters hash; KEYS[3] stats hash; KEYS[4] policy hash
-- KEYS[5] memory hash
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] letters  JSON [letter, ...]; at most 1000
-- ARGV[3] now_us   "" for the server's time
-- RETURN  how many there were
local dead, letters, stats = KEYS[1], KEYS[2], KEYS[3]
local memory = KEYS[5]
local prefix = ARGV[1]
local words = cjson.decode(ARGV[2])
local now_us = ARGV[3]
--+ prelude
--+ route
local now = time_us(now_us)
--+ history/listed
--+ history/open
--+ history/keep
--+ history/ended
--+ history/behind
--+ history/of_letter
--+ history/room
local history = open_history(has_room(call('HGET', prefix .. 'policy', 'history_bodies')))
local contents = history and call('HMGET', letters, unpack(words)) or {}
call('ZCARD', dead)
for i, kept in ipairs(contents) do
  if kept then
    ended_letter(history, 'u', words[i], kept)
  end
end
local count = call('HDEL', letters, unpack(words))
call('ZREM', dead, unpack(words))
keep_history(history)
if count > 0 then
  pcall('HINCRBY', stats, 'purged', count)
end
return count
