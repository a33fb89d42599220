-- opens: counts the failures that may become an outage, until they are enough to hold the shard
-- back: within 10 s at least 5, of at least 3 groups, and more than the messages handled
-- meanwhile.
local WINDOW_US, FAILURES, GROUPS = 10000000, 5, 3

local function is_in(list, word)
  for _, one in ipairs(list) do
    if one == word then return true end
  end
  return false
end

-- Notes this failure; the us since when where it is the one that makes them enough, else nil.
local function opens(group, handled)
  local kept = call('HMGET', outage, 'since_us', 'failures', 'handled', 'groups')
  local since, count = tonumber(kept[1] or nil), tonumber(kept[2] or 0)
  local before = tonumber(kept[3] or 0)
  local groups = {}
  if since and now >= since and now - since <= WINDOW_US then
    groups = cjson.decode(kept[4] or '[]')
  else
    since, count, before = now, 0, handled
  end
  count = count + 1
  if #groups < GROUPS and not is_in(groups, group) then
    groups[#groups + 1] = group
  end
  call('HSET', outage, 'since_us', fmt('%.0f', since), 'failures', count, 'handled', before,
    'groups', cjson.encode(groups))
  if count < FAILURES or #groups < GROUPS or count <= handled - before then return nil end
  return since
end
