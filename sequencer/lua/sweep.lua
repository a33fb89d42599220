-- sweep: drops what history and dead letters have that is older than the policy keeps it, or above
-- its cap. Writes do that too, but for dead letters; this is for a queue in which nothing ends.
-- Deleted dead letters are recorded in the history, where one is kept.
-- ARGV[1] passed   how many dead letters, the oldest, an earlier call has looked at and left
-- A dead letter with an unresolved step is left: its failure is of the type StepUnknown. A person
-- has to say what became of that step. Letters are read until they are 100, or more than 2 MB.
-- RETURN  [messages of the history that went, dead letters that went, dead letters that were looked
--         at and left, "1" if there may be more to do or "0"]
local passed = ARGV[1]
--+ keys
--+ generation
--+ history/behind
--+ repair/is_enough
local dead_us, dead_cap = policy_numbers('dead_us', 'dead_cap')
local LETTERS = 100
call('HLEN', stats)
call('HLEN', dead_letters)
local excess = dead_cap > 0 and call('ZCARD', dead) - dead_cap or 0
call('ZCARD', prefix .. 'histories')
local history = open_history()

call('HDEL', memory, '') -- changes nothing; a first write that is allowed at maxmemory
local gone, names = clean_history(history and history.window or 0, history and history.cap or 0)
if names[call('HGET', memory, 'history:open') or ''] then
  call('HDEL', memory, 'history:open', 'history:end', 'history:due')
  history = history and open_history(history.takes_bodies)
end

local function is_unresolved(letter)
  local failure = letter:match('^[^\n]*\n([^\n]*)')
  return failure:find('"type":"StepUnknown"', 1, true) ~= nil
    or failure:find('"type":"StepResultInvalid"', 1, true) ~= nil
end

local swept, left, seen, is_over = 0, 0, {looked = 0, bytes = 0}, false
local page = {}
if dead_us > 0 or excess > 0 then
  page = call('ZRANGE', dead, passed, passed + LETTERS - 1, 'WITHSCORES')
end
for i = 1, #page, 2 do
  local name, is_old = page[i], dead_us > 0 and now - tonumber(page[i + 1]) >= dead_us
  if not is_old and excess <= 0 then
    is_over = true
    break
  end
  local letter = call('HGET', dead_letters, name) or '\n'
  if is_unresolved(letter) then
    left = left + 1
  else
    ended_letter(history, 'w', name, letter)
    call('HDEL', dead_letters, name)
    call('ZREM', dead, name)
    swept = swept + 1
    excess = excess - 1
  end
  if is_enough(seen, letter) then break end
end
keep_history(history)
if swept > 0 then pcall('HINCRBY', stats, 'swept', swept) end
local is_more = not is_over and seen.looked > 0
  and (seen.looked == LETTERS or #page > 2 * seen.looked)
return {gone, swept, left, is_more and '1' or '0'}
