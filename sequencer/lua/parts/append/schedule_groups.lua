-- schedule_groups: groups that got messages become due, or wake.
--+ wake
local HINTS, FEW = 100, 32

-- `waiting`: {hinted = how many hints there are, later = groups to be looked at later, FEW + 1 at
-- most}. Where a hint is there already, nobody needs to know which groups are new; and where few
-- are to be looked at later, they are known by name, and of the others none has to be woken.
local function schedule_groups(list, first, waiting)
  local is_hinted, later, is_later = waiting.hinted > 0, waiting.later, {}
  local news, hints, text, visibles = {'NX'}, {}, fmt('%.0f', now), nil
  if not is_hinted or #later > FEW then
    visibles = #list > 0 and call('ZMSCORE', schedule, unpack(list)) or {}
  end
  for _, group in ipairs(later) do
    is_later[group] = true
  end
  for i, group in ipairs(list) do
    local at, visible = first[group] or now, visibles and visibles[i]
    if at < now then at = now end
    if visible and tonumber(visible) > at or not visibles and is_later[group] then
      wake(group, at)
    elseif not visible then
      news[#news + 1] = at == now and text or fmt('%.0f', at)
      news[#news + 1] = group
      if not is_hinted and at <= now + SOON then hints[#hints + 1] = group end
    end
  end
  if #news > 1 then call('ZADD', schedule, unpack(news)) end
  if #hints > 0 then
    call('RPUSH', dispatch, unpack(hints, 1, math.min(#hints, HINTS)))
  end
end
