-- alert_sent: a target took a message of an incident, to which `alert` had given the right.
-- ARGV[1] kind     ARGV[2] target   ARGV[3] opened_us   ARGV[4] number   ARGV[5] what: of that
--                  right
-- RETURN  1; 0, and nothing was changed: the incident is gone, or another sent it, too
local kind, target, opened_us, number, what = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
--+ keys
--+ generation
local alerts = prefix .. 'alerts'
call('HDEL', alerts, '') -- changes nothing; a first write that is allowed at maxmemory
--+ alert/record
local record = record_of(call('HGET', alerts, kind) or '')
local to = record and record.opened == opened_us and record.to[target]
if not to or to.n ~= number then return 0 end
to.n, to.sent, to.hold = fmt('%d', tonumber(number) + 1), now_text, nil
to.said = what == 'resolved' and 'resolved' or 'open'
if is_done(record) then
  call('HDEL', alerts, kind)
else
  call('HSET', alerts, kind, cjson.encode(record))
end
return 1
