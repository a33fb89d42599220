-- resume_many: lets many parked groups go on at once, each with fresh attempts; may first take away
-- the failed head of each. A group that is not as the caller saw it is left as it is.
-- ARGV[1] groups   JSON [[group, digest of the failure that the caller saw, member of that failure
--                  or "" for the head, the group's watermark once the member is passed or "" to
--                  leave it], ...]; at most 100, each group once. A digest is the length of the
--                  failure, a blank, and its last 400 bytes: they say when it was, and where
--                  (fakeredis has no redis.sha1hex)
-- ARGV[2] ending   "": the head stays; "dead": it becomes a dead letter; "drop": it is gone
-- RETURN  one character a group: "+" it goes on; "-" it is not parked behind a failure any more;
--         "!" it is parked, but not as the caller saw it
local words = cjson.decode(ARGV[1])
local ending = ARGV[2]
--+ keys
--+ generation
--+ history/room
local room = has_room(call('HGET', policy_key, 'history_bodies'))
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
local now = time_us(now_us)
--+ memory/check_memory
--+ memory/remember_ids
--+ memory/remember_marks
--+ memory/retire
--+ remove
--+ set_aside
--+ history/listed
--+ history/open
--+ history/keep
--+ history/ended
--+ history/behind
local policy = call('HMGET', policy_key, 'dedup_us', 'dedup_cap', 'mark_us', 'mark_cap')
local mark_us, mark_cap = tonumber(policy[3] or 0), tonumber(policy[4] or 0)
check_memory()
call('LLEN', dispatch)
call('HLEN', stats)
call('ZCARD', prefix .. 'dead')
call('HLEN', prefix .. 'letters')
local history = open_history(room)

local names, marks = {}, {}
for i, word in ipairs(words) do
  names[i] = word[1]
end
local times = call('ZMSCORE', schedule, unpack(names))
local known = call('HMGET', failures, unpack(names))

-- The failed message: member, score or false, record or "". None where its keys hold other types.
local function head_of(group, member)
  local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
  if member == '' then
    local first = pcall('ZRANGE', order, 0, 0)
    member = not first.err and first[1] or ''
  end
  local score, record = pcall('ZSCORE', order, member), pcall('HGET', body, sub(member, 17))
  if type(score) == 'table' or type(record) == 'table' then return nil end
  if not record or sub(record, 1, 16) ~= sub(member, 1, 16) then
    record = ''
  end
  return member, score, record
end

local function mark_of(i, digest) -- of the reply
  if tonumber(times[i] or 0) ~= math.huge or not known[i] then return '-' end
  local found = #known[i] .. ' ' .. sub(known[i], -400)
  return found == digest and '+' or '!'
end

local went, due, ended, ids, passed = {}, {}, {}, {}, {}

local function take_away(group, member, score, record, failure, mark)
  if ending == 'dead' then
    set_aside(group, member, score, record, failure)
  else
    local text = ended_behind('s', member, record, failure)
    add_ending(history, group .. '\n' .. sub(member, 17), text, score, failure, record)
  end
  remove(group, {member}, 1, ids, prefix .. 'order:' .. group)
  if mark ~= '' then
    passed[#passed + 1] = group
    passed[#passed + 1] = mark
  end
end

local function let_go_on(i, group, mark)
  local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
  local member, score, record = head_of(group, words[i][3])
  if not member then return '!' end
  if ending ~= '' and score then
    take_away(group, member, score, record, known[i], mark)
  elseif record ~= '' then
    call('HSET', body, sub(member, 17), sub(record, 1, 16) .. '0000' .. sub(record, 21))
  end
  went[#went + 1] = group
  if call('EXISTS', order) == 0 then
    ended[#ended + 1] = group
  else
    due[#due + 1] = fmt('%.0f', now)
    due[#due + 1] = group
  end
  return '+'
end

for i, word in ipairs(words) do
  local group, digest, _, mark = unpack(word)
  marks[i] = mark_of(i, digest)
  if marks[i] == '+' then
    marks[i] = let_go_on(i, group, mark)
  end
end

if #went > 0 then
  call('HDEL', failures, unpack(went))
  remember_ids(ids, tonumber(policy[1] or 0), tonumber(policy[2] or 0))
  remember_marks(passed, mark_us, mark_cap)
  keep_history(history)
end
if #ended > 0 then
  call('ZREM', schedule, unpack(ended))
  call('HDEL', leases, unpack(ended))
  for _, group in ipairs(ended) do
    retire(group, mark_us, mark_cap)
  end
end
if #due > 0 then
  call('ZADD', schedule, unpack(due))
  if call('LLEN', dispatch) == 0 then
    call('RPUSH', dispatch, due[2])
  end
end
if #ids > 0 then
  pcall('HINCRBY', stats, ending == 'dead' and 'dead' or 'skipped', #ids)
end
return table.concat(marks)
