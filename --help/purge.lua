-- purge: deletes dead letters for good.
-- KEYS[1] dead zset; KEYS[2] letters hash; KEYS[3] stats hash
-- ARGV[1] prefix   of the lane's keys
-- ARGV[2] letters  JSON [letter, ...]; at most 1000
-- RETURN  how many there were
-- rights: refuses a call whose user lacks a right, before anything is written: the server would
-- notice at the command that needs it, in the middle. Asks for each command that may be called
-- behind it, up to where it stands again, in one expression: a loop over their names takes twice as
-- long. Stands first in a script that does not name it. One that does only reads before, where the
-- server itself refuses, or has undone what it wrote. Before Redis 7 there is no such question.
-- Needs: nothing.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = not may('HDEL', key, key) and 'HDEL' or not may('HINCRBY', key, key) and 'HINCRBY' or not may('ZREM', key, key) and 'ZREM' end -- luacheck: no max line length
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks
    .. ' command; nothing was written')
end
local dead, letters, stats = KEYS[1], KEYS[2], KEYS[3]
local words = cjson.decode(ARGV[2])
local call, pcall = redis.call, redis.pcall
local count = call('HDEL', letters, unpack(words))
call('ZREM', dead, unpack(words))
if count > 0 then
  pcall('HINCRBY', stats, 'purged', count)
end
return count
