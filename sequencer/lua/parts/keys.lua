-- keys: the shard's keys, which begin as its schedule does. That is KEYS[1], the only one that is
-- named.
--+ prelude
local schedule = KEYS[1]
local now, now_text = time_us()
local prefix = sub(schedule, 1, -9)
local leases, failures, dispatch = prefix .. 'leases', prefix .. 'failures', prefix .. 'dispatch'
local stats, memory, clock_key = prefix .. 'stats', prefix .. 'memory', prefix .. 'clock'
local policy_key, paused, outage = prefix .. 'policy', prefix .. 'paused', prefix .. 'outage'
local dead, dead_letters, skipped = prefix .. 'dead', prefix .. 'dead_letters', prefix .. 'skipped'

local function policy_numbers(...) -- of the policy's fields of these names; 0 for none
  local found = call('HMGET', policy_key, ...)
  for i, text in ipairs(found) do
    found[i] = tonumber(text or nil) or 0
  end
  return unpack(found)
end
