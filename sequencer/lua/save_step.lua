-- save_step: writes the ledger of the message in hand into its record, before the next step begins.
-- KEYS[1] schedule; the other keys begin as it does
-- ARGV[1] group       ARGV[2] token (16 digits)   ARGV[3] member
-- ARGV[4] before      the member whose ack was sent in front of this call, or ""
-- ARGV[5] ledger      with effects digit, serial and length, as the record keeps it (parts/record)
-- ARGV[6] progressed  "1": a step became done since the last write, so attempts begin again
-- RETURN  1, also where the record has this serial or a later one, and is left as it is; 0 when the
--         token is not valid; -1 when the message is gone, or another one stands under its id; -2
--         when the member `before` is still there, as its ack was refused. Nothing was changed then
local group, token, member, before, ledger = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local progressed = ARGV[6] == '1'
--+ prelude
local prefix = sub(KEYS[1], 1, -9)
local leases = prefix .. 'leases'
--+ generation
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
