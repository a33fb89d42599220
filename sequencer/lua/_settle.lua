-- settle: the end of an append: groups become due or wake, late messages are buried, everything is counted.
-- Needs what append.lua binds, and: memory, wake, bury. Totals are counted by pcall, here and everywhere: one that others
-- overwrote must not end a script in the middle of what it writes.
local function settle(stored, late, ready, dedup_us, dedup_cap)
  local list, first, others, hints, entries, count = {}, {}, {}, {}, {}, {appended = #stored}
  local number_of = {} -- group -> watermark, in a sequence
  for _, i in ipairs(stored) do
    local group = words[i][1]
    if not first[group] then list[#list + 1] = group end
    number_of[group] = sequence and marked and marked[i]
    first[group] = math.min(first[group] or ready[i], ready[i])
  end
  for _, group in ipairs(list) do
    local at = math.max(first[group], now)
    if number_of[group] then call('HSETNX', numbers, group, number_of[group]) end
    if call('ZADD', schedule, 'NX', fmt('%.0f', at), group) == 0 then others[#others + 1] = group
    elseif at <= now + SOON then hints[#hints + 1] = group end
  end
  if #hints > 0 and call('RPUSH', dispatch, unpack(hints)) > 1000 then call('LTRIM', dispatch, -1000, -1) end
  local visibles = #others > 0 and call('ZMSCORE', schedule, unpack(others)) or {}
  for i, group in ipairs(others) do
    if tonumber(visibles[i]) > math.max(first[group], now) then wake(group, first[group]) end
  end
  for _, one in ipairs(late) do
    local i, fate, stamp, score, record = unpack(one)
    local group, id = words[i][1], words[i][2]
    local text = 'its score ' .. score .. ' lies below ' .. tostring(marked[i]) .. ', which was handled'
    local failure = {id = id, type = 'TooLate', message = text, attempt = 0, at = now / 1e6}
    if fate == 'x' then bury(group, stamp .. id, score, record, cjson.encode(failure)) end
    local name = fate == 'x' and 'dead' or fate == '~' and 'dropped' or 'refused'
    count[name], count.late = (count[name] or 0) + 1, (count.late or 0) + 1
    if fate ~= '<' then entries[#entries + 1] = group .. '\n' .. id end
  end
  remember_ids(entries, dedup_us, dedup_cap)
  for name, n in pairs(count) do if n > 0 then pcall('HINCRBY', stats, name, n) end end
end
