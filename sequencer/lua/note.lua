-- note: writes the ledger of the message in hand into its record, before the next step begins.
-- KEYS[1] leases hash
-- ARGV[1] prefix      of the lane's keys
-- ARGV[2] group       ARGV[3] token (16 digits)   ARGV[4] member
-- ARGV[5] before      the member whose ack was sent in front of this call, or ""
-- ARGV[6] ledger      with effects digit, serial and length, as the record keeps it (parts/record)
-- ARGV[7] progressed  "1": a step became done since the last write, so attempts begin anew
-- RETURN  1, also where the record has this serial or a later one, and is left as it is; 0 when the
--         token is not valid; -1 when the message is gone, or another one stands under its id; -2
--         when the member `before` is still there, as its ack was refused. Nothing was changed then
local leases = KEYS[1]
local prefix = ARGV[1]
local group, token, member = ARGV[2], ARGV[3], ARGV[4]
local before = ARGV[5]
local ledger = ARGV[6]
local progressed = ARGV[7] == '1'
--+ prelude
--+ route
--+ ledger
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
local held = call('HGET', leases, group)
if not held or sub(held, 1, 16) ~= token then return 0 end
if before ~= '' and type(pcall('ZSCORE', prefix .. 'order:' .. group, before)) == 'string' then
  return -2
end
local body, id = prefix .. 'body:' .. group, sub(member, 17)
local record = pcall('HGET', body, id)
if type(record) ~= 'string' or sub(record, 1, 16) ~= sub(member, 1, 16) then return -1 end
local _, _, known = cut(record)
if known == '' or is_newer(ledger, known) then
  call('HSET', body, id, rewritten(record, progressed and '0' or '', ledger))
end
return 1
