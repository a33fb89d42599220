-- redrive: puts dead letters back into their own places: same group, id, score and stamp, with
-- fresh attempts.
-- ARGV[1] from     "dead_letters", or "skipped" for the message that was skipped last
-- ARGV[2] letters  JSON [letter, digest of the failure that the caller saw or "", ...]; at most
--                  1000. A letter: 16-digit stamp, group, newline, id. A digest: see resume;
--                  "" is any
-- ARGV[3] ledger   of the only letter, as its record keeps it (parts/record); "" leaves them
-- RETURN  one character a letter: "+" put back, "-" not there, "=" its id is pending again and it
--         stays, "~" its id was handled since, as far as that is known, and it stays, "!" its
--         failure is another one, and it stays
-- ERROR   OOM at maxmemory (SET is refused, and comes first)
local from = ARGV[1]
local words = cjson.decode(ARGV[2])
local ledger = ARGV[3]
--+ keys
--+ generation
--+ check_keys
--+ memory/known
--+ memory/again
--+ memory/was_handled
--+ wake
--+ record
local mark_us, dedup_us = policy_numbers('mark_us', 'dedup_us')
check_keys()
call('HLEN', prefix .. from)
for i = 1, #words, 2 do
  local group = words[i]:match('^................([^\n]*)\n') or ''
  call('ZCARD', prefix .. 'order:' .. group)
  call('HLEN', prefix .. 'body:' .. group)
end
call('SET', clock_key, call('GET', clock_key) or now_text)

local function put_back(letter, digest) -- the mark of the reply
  local kept = call('HGET', prefix .. from, letter) or ''
  local score, failure, record = kept:match('^([^\n]*)\n([^\n]*)\n(.*)$')
  if not record then return '-' end
  if digest ~= '' and digest ~= #failure .. ' ' .. sub(failure, -400) then return '!' end
  local ends = letter:find('\n', 1, true)
  local stamp, group, id = sub(letter, 1, 16), sub(letter, 17, ends - 1), sub(letter, ends + 1)
  local body, died = prefix .. 'body:' .. group, call('ZSCORE', dead, letter)
  if call('HEXISTS', body, id) == 1 then return '=' end
  if died and was_handled(group, id, tonumber(died), dedup_us) then return '~' end
  local _, _, known, at = cut(record)
  known = ledger ~= '' and ledger or known
  call('HSET', body, id, head_of(stamp, '0000', 'R', '', known) .. sub(record, at))
  local mark = marks_of({group}, mark_us)[1] or ''
  if sub(mark, 1, 1) == '#' then call('HSETNX', sequences, group, mark) end
  call('ZADD', prefix .. 'order:' .. group, score, stamp .. id)
  call('ZREM', dead, letter)
  call('HDEL', prefix .. from, letter)
  note_again(group, id, dedup_us)
  wake(group, now)
  return '+'
end

local marks, count = {}, 0
for i = 1, #words, 2 do
  local mark = put_back(words[i], words[i + 1])
  marks[#marks + 1] = mark
  if mark == '+' then count = count + 1 end
end
if count > 0 then pcall('HINCRBY', stats, 'redriven', count) end
return table.concat(marks)
