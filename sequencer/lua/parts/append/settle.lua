-- settle: the end of an append: groups become due or wake, late messages are buried, everything is counted.
-- Needs what append.lua binds, and: memory, wake, bury. Totals are counted by pcall, here and everywhere: one that others
-- overwrote must not end a script in the middle of what it writes. A consumer blocks on an empty list only: where there
-- are hints already, all are busy.
local HINTS = 100
local function settle(late, dedup_us, dedup_cap)
  local hints, entries, count, text = {}, {}, {appended = #stored}, fmt('%.0f', now)
  local news, visibles = {'NX'}, nil
  for _, i in ipairs(sequence and marked and stored or {}) do
    if marked[i] then call('HSETNX', numbers, words[3 * i - 2], marked[i]) end
  end
  -- Where a hint is there already, nobody needs to know which groups are new; and of those to be looked at later there
  -- may be few: they are known by name then, and of the others none has to be woken.
  if hinted == 0 or #later > FEW then visibles = #list > 0 and call('ZMSCORE', schedule, unpack(list)) or {} end
  for _, group in ipairs(later) do later[group] = true end
  for i, group in ipairs(list) do
    local at, visible = first[group] or now, visibles and visibles[i]
    if at < now then at = now end
    if visible and tonumber(visible) > at or not visibles and later[group] then wake(group, at)
    elseif not visible then
      news[#news + 1], news[#news + 2] = at == now and text or fmt('%.0f', at), group
      if hinted == 0 and at <= now + SOON then hints[#hints + 1] = group end
    end
  end
  if #news > 1 then call('ZADD', schedule, unpack(news)) end
  if #hints > 0 then call('RPUSH', dispatch, unpack(hints, 1, math.min(#hints, HINTS))) end
  for _, one in ipairs(late) do
    local i, fate, stamp, score, record = unpack(one)
    local group, id = word_of(i)
    local text = 'its score ' .. score .. ' lies below ' .. tostring(marked[i]) .. ', which was handled'
    local failure = {id = id, type = 'TooLate', message = text, attempt = 0, at = now / 1e6}
    if fate == 'x' then set_aside(group, stamp .. id, score, record, cjson.encode(failure)) end
    local name = fate == 'x' and 'dead' or fate == '~' and 'dropped' or 'refused'
    count[name], count.late = (count[name] or 0) + 1, (count.late or 0) + 1
    if fate ~= '<' then entries[#entries + 1] = group .. '\n' .. id end
  end
  remember_ids(entries, dedup_us, dedup_cap)
  for name, n in pairs(count) do if n > 0 then pcall('HINCRBY', stats, name, n) end end
end
