-- count: what a failure of an outage counts for. Enough of them hold the shard back: within 10 s at
-- least 5, of at least 3 groups, and more than the messages handled meanwhile. None counts an
-- attempt; but a group's 10th in a row, and those behind it, are failures like others while nothing
-- holds the shard back, if the shard handled something since the first: they are the group's own.
-- Its failure begins with how many in a row, and how many messages the shard had handled at the
-- first; behind that, whether they are its own: then the next one counts an attempt of a step.
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

local IN_A_ROW = 10
local SECOND = 1000000

local function begin_outage(held_back)
  held_back.probe_us = now + SECOND
  held_back.is_new = true
  call('HSET', policy_key, 'probe_us', fmt('%.0f', held_back.probe_us))
  call('HSET', outage, 'opened_us', now_text, 'from_us', now_text, 'probes', 0, 'failure', failure)
  call('HDEL', outage, 'token')
  pcall('HINCRBY', stats, 'outages', 1)
end

-- `before`: the failure that the message had, or "". Returns for how many ms the group waits, nil
-- where it counts as another failure does; the ms until the next probe, if the handler said so; and
-- the failure to keep.
local function count_outage(held_back, waits, before, handled)
  local first_ms, longest_ms, after_ms = unpack(waits)
  local count, handled_then = before:match('^{"outages":(%d+),"handled":(%d+),')
  count, handled_then = (tonumber(count) or 0) + 1, tonumber(handled_then) or handled
  if not held_back.probe_us and opens(group, handled) then
    begin_outage(held_back)
  end
  local kept = fmt('{"outages":%d,"handled":%.0f,', count, handled_then) .. sub(failure, 2)
  if not held_back.probe_us and count >= IN_A_ROW and handled > handled_then then
    return nil, nil, fmt('{"outages":%d,"handled":%.0f,"own":true,', count, handled_then)
      .. sub(failure, 2)
  end
  return math.min(longest_ms, first_ms * 2 ^ math.min(count - 1, 30)), after_ms, kept
end

-- The answer to a nack.
local function said_of(held_back, wait_ms)
  local probe_us, since, is_new = held_back.probe_us, '', held_back.is_new and '1' or '0'
  if probe_us then
    since = call('HGET', outage, 'since_us') or ''
    probe_us = fmt('%.0f', probe_us)
  end
  local wait = wait_ms and fmt('%.0f', wait_ms) or ''
  return {wait_ms and '1' or '0', wait, now_text, since, probe_us or '', is_new}
end

local LONGEST_MS = 5000

-- 1, 2, 4, then 5 s, unless the handler said when; "" where the handler was not run, or failed with
-- something else: at once.
local function failed_probe(verdict, after_ms, failure)
  local wait_ms = 0
  if verdict ~= '' then
    local count = (tonumber(call('HGET', outage, 'probes') or 0) or 0) + 1
    wait_ms = tonumber(after_ms) or math.min(LONGEST_MS, 1000 * 2 ^ math.min(count - 1, 10))
    call('HSET', outage, 'probes', count, 'failure', failure)
  end
  local probe_us = now + wait_ms * 1000
  call('HDEL', outage, 'token')
  call('HSET', outage, 'from_us', fmt('%.0f', now))
  call('HSET', policy_key, 'probe_us', fmt('%.0f', probe_us))
  return probe_us
end
