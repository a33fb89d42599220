-- purge: deletes dead letters for good.
-- KEYS[1] dead zset; KEYS[2] letters hash; KEYS[3] stats hash
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] letters  JSON [letter, ...]; at most 1000
-- RETURN  how many there were
local dead, letters, stats = KEYS[1], KEYS[2], KEYS[3]
local prefix = ARGV[1]
local words = cjson.decode(ARGV[2])
--+ prelude
--+ route
local count = call('HDEL', letters, unpack(words))
call('ZREM', dead, unpack(words))
if count > 0 then
  pcall('HINCRBY', stats, 'purged', count)
end
return count
