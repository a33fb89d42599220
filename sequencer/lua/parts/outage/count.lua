-- count: what a failure of an outage counts for.
--+ outage/opens
local IN_A_ROW = 10
local SECOND = 1000000

local function begin_outage(held_back)
  held_back.probe_us = now + SECOND
  held_back.is_new = true
  call('HSET', policy_key, 'probe_us', fmt('%.0f', held_back.probe_us))
  call('HSET', outage, 'opened_us', fmt('%.0f', now), 'from_us', fmt('%.0f', now), 'probes', 0,
    'failure', failure)
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
  return {
    wait_ms and '1' or '0',
    wait_ms and fmt('%.0f', wait_ms) or '',
    fmt('%.0f', now),
    held_back.probe_us and call('HGET', outage, 'since_us') or '',
    held_back.probe_us and fmt('%.0f', held_back.probe_us) or '',
    held_back.is_new and '1' or '0',
  }
end
