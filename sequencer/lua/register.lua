-- register: changes what is registered of a queue, where it is still what the caller saw.
-- KEYS[1] registry hash
-- ARGV[1] words   JSON {seen = [generation, version] that the caller saw ("", "" for nothing),
--                 protocol (as it is kept; "" to forget the queue), generation_number ("" for the
--                 server's time in us, for a table that is made), least (an generation_number that
--                 is made is not below), version, table, policy}
-- RETURN  what is registered now: [field, value, ...]
local registry = KEYS[1]
local words = cjson.decode(ARGV[1])
--+ prelude
call('HDEL', registry, '') -- changes nothing; a first write that is allowed at maxmemory
local there = call('HMGET', registry, 'generation', 'version')
if (there[1] or '') == words.seen[1] and (there[2] or '') == words.seen[2] then
  if words.protocol == '' then
    call('DEL', registry)
  else
    local number = words.generation_number
    if number == '' then
      number = fmt('%.0f', math.max((time_us()), words.least))
    end
    call('HSET', registry, 'generation', words.protocol .. '.' .. number, 'version',
      words.version, 'table', words.table, 'policy', words.policy)
  end
end
return call('HGETALL', registry)
