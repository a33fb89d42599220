-- alarm_sent: a target took a message of an incident, to which `alarm` had given the right.
-- KEYS[1] alarms hash
-- ARGV[1] prefix   of the keys of lane 0
-- ARGV[2] kind     ARGV[3] target   ARGV[4] opened_us   ARGV[5] number   ARGV[6] what: as `alarm`
--                  said them
-- ARGV[7] now_us   "" for the server's time
-- RETURN  1; 0 where that incident is no more, or the target took a message meanwhile: another sent
--         it too, and nothing was changed
local alarms = KEYS[1]
local prefix = ARGV[1]
local kind, target, opened_us = ARGV[2], ARGV[3], ARGV[4]
local number = ARGV[5]
local what = ARGV[6]
local now_us = ARGV[7]
--+ prelude
--+ route
call('HDEL', alarms, '') -- changes nothing; a first write that is allowed at maxmemory
local _, now_text = time_us(now_us)
--+ alarm/record
local record = record_of(call('HGET', alarms, kind) or '')
local to = record and record.opened == opened_us and record.to[target]
if not to or to.n ~= number then return 0 end
to.n, to.sent, to.hold = fmt('%d', tonumber(number) + 1), now_text, nil
to.said = what == 'resolved' and 'resolved' or 'open'
if is_done(record) then
  call('HDEL', alarms, kind)
else
  call('HSET', alarms, kind, cjson.encode(record))
end
return 1
