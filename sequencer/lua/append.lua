-- append: adds messages of one lane, each to its group; a new group becomes due and wakes a consumer.
-- KEYS[1] schedule zset; KEYS[2] clock string; KEYS[3] dispatch list; KEYS[4] stats hash
-- ARGV[1] prefix      of the lane's keys
-- ARGV[2] on_conflict "none": store nothing; "others": store the rest; "error": store nothing, error reply (in MULTI);
--                     "check": store nothing in any case, only say what would be
-- ARGV[3] now_us      "" for the server's time
-- ARGV[4] words       JSON [[group, id, score or ""], ...]; at most 1000, an id once per group
-- ARGV[5] envelopes   ... one argument a message, in the same order
-- RETURN  one string, 17 characters a message: "+" stored, "=" was there, "!" other content; then its stamp
-- ERROR   IDCONFLICT when on_conflict is "error"; OOM at maxmemory (SET is refused, and comes first)
local schedule, clock_key, dispatch, stats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix, on_conflict, now, words = ARGV[1], ARGV[2], ARGV[3], cjson.decode(ARGV[4])
local call, pcall, fmt, sub = redis.call, redis.pcall, string.format, string.sub
if now == '' then local t = call('TIME'); now = t[1] * 1000000 + t[2] end
call('ZCARD', schedule); call('LLEN', dispatch); call('HLEN', stats)
local clock = math.max(tonumber(call('GET', clock_key) or 0), now - 1)
call('SET', clock_key, fmt('%.0f', clock + #words))

-- Storing is tried at once, and undone exactly where something was refused: a look at every id before the
-- first write would cost a third of the script's time for the sake of the rare case.
local marks, stored, refused, failure = {}, {}, 0, nil
for i, word in ipairs(words) do
  local group, id, score = word[1], word[2], word[3]
  local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
  local stamp, envelope = fmt('%.0f', clock + i), ARGV[4 + i]
  local new
  if on_conflict == 'check' then new = 1 - pcall('HEXISTS', body, id)
  else new = pcall('HSETNX', body, id, stamp .. '0000' .. envelope) end
  if new == 1 and on_conflict == 'check' then marks[i] = '+' .. stamp
  elseif new == 1 then
    if score == '' then score = sub(stamp, 1, 10) .. '.' .. sub(stamp, 11) end
    stored[#stored + 1] = i
    local added = pcall('ZADD', order, score, stamp .. id)
    if type(added) == 'table' then failure = added; break end
    marks[i] = '+' .. stamp
  elseif new == 0 then
    local old = call('HGET', body, id)
    stamp = sub(old, 1, 16)
    local same = sub(old, 21) == envelope
    if same and score ~= '' then
      same = tonumber(call('ZSCORE', order, stamp .. id) or 'nan') == tonumber(score)
    end
    if not same then refused = refused + 1 end
    marks[i] = (same and '=' or '!') .. stamp
  else failure = new; break end
end

if failure or (refused > 0 and on_conflict ~= 'others') then
  for _, i in ipairs(stored) do
    local group, id = words[i][1], words[i][2]
    pcall('ZREM', prefix .. 'order:' .. group, fmt('%.0f', clock + i) .. id)
    call('HDEL', prefix .. 'body:' .. group, id)
  end
  if failure then return failure end
  if on_conflict == 'error' then return redis.error_reply('IDCONFLICT the id is pending with other content') end
  return table.concat(marks)
end
local seen, hints, visible = {}, {}, fmt('%.0f', now)
for _, i in ipairs(stored) do
  local group = words[i][1]
  if not seen[group] then
    seen[group] = true
    if call('ZADD', schedule, 'NX', visible, group) == 1 then hints[#hints + 1] = group end
  end
end
if #hints > 0 and call('RPUSH', dispatch, unpack(hints)) > 1000 then call('LTRIM', dispatch, -1000, -1) end
if #stored > 0 then call('HINCRBY', stats, 'appended', #stored) end
return table.concat(marks)
