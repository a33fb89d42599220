-- rerun: appends a message that ended again, under an id of its own, from what history keeps of it.
-- It counts as redriven: it is put into its own place, however late that is.
-- ARGV[1] group     ARGV[2] id: of the message that ended
-- ARGV[3] stamp     with which its record begins, as the caller saw it (16 digits)
-- ARGV[4] base      of the new id: "~" and a number follow
-- ARGV[5] number    that is tried first; one that is taken is passed over
-- ARGV[6] envelope  ARGV[7] ledger: of the new message; "" for none
-- RETURN  [status, new id or "", new stamp or ""]: "added"; "again", under the id of an earlier
--         call; "pending": its own id is; "missing": history has it no more, or another one of its
--         id
-- ERROR   OOM at maxmemory (SET is refused, and comes first)
local group, id, stamp, base = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local number = tonumber(ARGV[5])
local envelope, ledger = ARGV[6], ARGV[7]
--+ keys
--+ generation
--+ shard_clock
--+ record
--+ wake
--+ memory/known
--+ history/content
local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
local field = group .. '\n' .. id
local mark_us, dedup_us = policy_numbers('mark_us', 'dedup_us')
call('ZCARD', order)
call('ZCARD', schedule)
call('LLEN', dispatch)
call('HLEN', stats)
if call('HEXISTS', body, id) == 1 then return {'pending', '', ''} end
local _, kept, again, bodies = all_of_history(field)
local score, record = kept:match('^([^\n]+)\n[^\n]*\n(.*)$')
if not record or sub(record, 1, 16) ~= stamp then return {'missing', '', ''} end
if again ~= '' then return {'again', again, ''} end

-- Whether another message has this id, pending or known; and whether it is this one, of a call that
-- failed after its append.
local function taken_by(new)
  local there = call('HGET', body, new)
  if there then
    local _, _, _, at = cut(there)
    return true, sub(there, at) == envelope
  end
  local entry = group .. '\n' .. new
  local is_known = found_in_history(entry) ~= nil
  for _, key in ipairs(known('dedup', dedup_us)) do
    is_known = is_known or call('SISMEMBER', key, entry) == 1
  end
  return is_known, false
end

local new = base .. '~' .. fmt('%d', number)
local is_taken, is_own = taken_by(new)
while is_taken and not is_own do
  number = number + 1
  new = base .. '~' .. fmt('%d', number)
  is_taken, is_own = taken_by(new)
end
local new_stamp = fmt('%.0f', math.max(shard_clock() + 1, now))
local mark = marks_of({group}, mark_us)[1] or ''

call('SET', clock_key, new_stamp)
if not is_own then
  call('HSET', body, new, head_of(new_stamp, '0000', 'R', '', ledger) .. envelope)
  call('ZADD', order, score, new_stamp .. new)
  if sub(mark, 1, 1) == '#' then call('HSETNX', sequences, group, mark) end
  wake(group, now)
  pcall('HINCRBY', stats, 'appended', 1)
end
call('HSET', bodies, '\n' .. field, stamp .. new)
return {is_own and 'again' or 'added', new, is_own and '' or new_stamp}
