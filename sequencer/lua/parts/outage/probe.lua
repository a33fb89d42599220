-- probe: what a claim takes while an outage holds the shard back. Those without a failure first:
-- what failed may have failed for a reason of its own.
local function probe_order(due)
  local failed, order = call('HMGET', failures, unpack(due)), {}
  for i, group in ipairs(due) do
    if not failed[i] then order[#order + 1] = group end
  end
  for i, group in ipairs(due) do
    if failed[i] then order[#order + 1] = group end
  end
  return order
end

-- Nobody else probes until the lease is over: by then its consumer has answered, or is dead.
-- Returns how the claim's answer says it.
local function begin_probe(token, visible)
  call('HSET', policy_key, 'probe_us', visible)
  call('HSET', prefix .. 'outage', 'token', token, 'from_us', fmt('%.0f', now))
  call('DEL', dispatch)
  return 'p'
end

-- Whether the clock was set back since the wait for the next probe began: it would last for longer.
local function has_gone_back()
  return now < tonumber(call('HGET', prefix .. 'outage', 'from_us') or 0)
end
