-- failed_probe: when an outage is probed next.
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
