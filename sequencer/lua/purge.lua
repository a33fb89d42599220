-- purge: deletes dead letters for good; recorded in the history, where one is kept.
-- ARGV[1] letters  JSON [letter, ...]; at most 1000
-- RETURN  how many there were
local words = cjson.decode(ARGV[1])
--+ keys
--+ generation
--+ history/behind
local history = open_history()
local contents = history and call('HMGET', dead_letters, unpack(words)) or {}
call('ZCARD', dead)
for i, kept in ipairs(contents) do
  if kept then ended_letter(history, 'u', words[i], kept) end
end
local count = call('HDEL', dead_letters, unpack(words))
call('ZREM', dead, unpack(words))
keep_history(history)
if count > 0 then pcall('HINCRBY', stats, 'purged', count) end
return count
