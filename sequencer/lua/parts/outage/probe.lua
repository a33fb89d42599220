-- probe: what a claim takes while an outage holds the lane back. Needs: call, failures, policy_key,
-- prefix, dispatch.
-- Those without a failure first: what failed may have failed for a reason of its own.
local function probe_order(due)
  local failed, order = call('HMGET', failures, unpack(due)), {}
  for i, group in ipairs(due) do
    if not failed[i] then
      order[#order + 1] = group
    end
  end
  for i, group in ipairs(due) do
    if failed[i] then
      order[#order + 1] = group
    end
  end
  return order
end

-- Nobody else probes until the lease is over: by then its consumer has answered, or is dead.
-- Returns how the claim's answer says it.
local function begin_probe(token, visible)
  call('HSET', policy_key, 'probe_us', visible)
  call('HSET', prefix .. 'outage', 'token', token)
  call('DEL', dispatch)
  return 'p'
end
