-- mark_notified: a target was notified of parked groups and dead letters. Groups that are parked no
-- longer are forgotten, a page at a time.
-- ARGV[1] target   ARGV[2] groups: JSON [group, at of its failure, ...]
-- ARGV[3] dead_us  when the last dead letter died that it was notified of; "" and an earlier time
--                  change nothing
-- ARGV[4] cursor   of the page of names to look at; "0" to begin, "" for none
-- RETURN  cursor of the next page, "0" at the end
local target = ARGV[1]
local groups = cjson.decode(ARGV[2])
local dead_us, cursor = ARGV[3], ARGV[4]
--+ keys
--+ generation
local notified = prefix .. 'notified'
call('HDEL', notified, '') -- changes nothing; a first write that is allowed at maxmemory
for i = 1, #groups, 2 do
  call('HSET', notified, target .. '\n' .. groups[i], groups[i + 1])
end
if dead_us ~= '' and tonumber(dead_us) > (tonumber(call('HGET', notified, target) or nil) or 0) then
  call('HSET', notified, target, dead_us)
end
if cursor == '' then return '0' end
local page = call('HSCAN', notified, cursor, 'COUNT', 200)
for i = 1, #page[2], 2 do
  local group = page[2][i]:match('\n(.*)')
  if group and call('ZSCORE', schedule, group) ~= 'inf' then
    call('HDEL', notified, page[2][i])
  end
end
return page[1]
