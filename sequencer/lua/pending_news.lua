-- pending_news: parked groups and dead letters that a target was not notified of; changes nothing.
-- ARGV[1] target
-- ARGV[2] first    how many parked groups to pass by
-- RETURN  [[parked groups that were looked at, at most 100, group, at of its failure, failure,
--         ...], [dead letters, us of the last one, letter, failure, ...]], the 10 letters that died
--         first; of a failure type, message, id, attempt and at, as JSON; "" for none
-- `notified`: target, newline, group -> `at` of the failure; target -> us of the last dead letter.
local target = ARGV[1]
local first = tonumber(ARGV[2])
--+ keys
--+ generation
local notified = prefix .. 'notified'
--+ failure
local PAGE, NAMED = 100, 10

local function short(failure)
  local known = failure and failure_of(failure)
  if not known then return '' end
  local message = first_of({message = known.message}, 500):sub(3) -- behind the type and ": "
  return cjson.encode({type = known.type, message = message, id = known.id,
    attempt = known.attempt, at = known.at})
end

local groups = {}
local size, parked = call('ZCARD', schedule), call('ZCOUNT', schedule, 'inf', 'inf')
if first < parked then
  local from = size - parked + first
  local page = call('ZRANGE', schedule, from, from + PAGE - 1)
  local known = call('HMGET', failures, unpack(page))
  local names = {}
  for i, group in ipairs(page) do
    names[i] = target .. '\n' .. group
  end
  local before = call('HMGET', notified, unpack(names))
  groups[1] = #page
  for i, group in ipairs(page) do
    local at = known[i] and known[i]:match('[{,]"at":([%d.e+]+)') or '0'
    if before[i] ~= at then
      groups[#groups + 1] = group
      groups[#groups + 1] = at
      groups[#groups + 1] = short(known[i])
    end
  end
else
  groups[1] = 0
end

local after = '(' .. (call('HGET', notified, target) or '0')
local count = call('ZCOUNT', dead, after, 'inf')
local ends = {count, ''}
if count > 0 then
  ends[2] = call('ZRANGE', dead, -1, -1, 'WITHSCORES')[2]
  for _, letter in ipairs(call('ZRANGEBYSCORE', dead, after, 'inf', 'LIMIT', 0, NAMED)) do
    ends[#ends + 1] = letter
    ends[#ends + 1] = short((call('HGET', dead_letters, letter) or ''):match('^[^\n]*\n([^\n]*)'))
  end
end
return {groups, ends}
