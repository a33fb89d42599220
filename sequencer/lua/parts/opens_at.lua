-- opens_at: from when on a message at the head may be handled. The rules of the policy, as
-- opens_at takes them; only a sequence has those of gaps.
local function gate_of(rules, policy_key)
  local gate = {window = rules.window, sequence = rules.sequence}
  if gate.sequence then
    local policy = call('HMGET', policy_key, 'gap_us', 'on_gap')
    gate.gap_us = tonumber(policy[1] or 0)
    gate.skips = policy[2] == 'skip'
  end
  return gate
end

-- Two values: 0 for now, else us, math.huge for parked at a gap; and whether it waits for a missing
-- number.
local function opens_at(gate, member, score, record, mark)
  local flag, arrived = sub(record, 21, 21), tonumber(sub(member, 1, 16)) or 0
  local at, is_gap = 0, false
  if flag == 'D' or flag == 'T' or flag == 'd' or flag == 't' then
    at = tonumber(sub(record, 22, 37)) or 0
  end
  local is_redriven = flag == 'R' or flag == 'r'
  if gate.window > 0 and not is_redriven then
    at = math.max(at, arrived + gate.window)
  end
  if gate.sequence and not is_redriven and tonumber(score) > mark + 1 then
    local ends = arrived + gate.gap_us
    if now < ends then
      is_gap = ends >= at
      at = math.max(at, ends)
    elseif not gate.skips then
      return math.huge, true
    end
  end
  return at > now and at or 0, is_gap
end
