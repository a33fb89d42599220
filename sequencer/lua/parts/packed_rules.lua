-- packed_rules: what append, claim and ack need of the lane's policy, in one text: the route, "1"
-- where no rule concerns a message ("0"), dedup_us, window_us, on_late, sequence, mark_us,
-- dedup_cap. Whoever brings the policy to a lane writes it (adopt.lua). Needs: call, sub.

local function packed_rules(policy_key) -- of a lane that has only the single fields
  local policy = call('HMGET', policy_key, 'route', 'dedup_us', 'window_us', 'on_late', 'sequence',
    'mark_us', 'dedup_cap')
  local window, on_late = policy[3] or '0', policy[4] or 'handle'
  local is_plain = window == '0' and on_late == 'handle' and policy[5] ~= '1'
  local route, flag = policy[1] or 'none', is_plain and '1' or '0'
  return table.concat({route, flag, policy[2] or '0', window, on_late, policy[5] or '0',
    policy[6] or '0', policy[7] or '0'}, ' ')
end

-- Where the route ends, if it is this one; "" is any.
local function route_end(packed, route)
  if route == '' then return packed:find(' ', 1, true) end
  local ends = #route + 1
  return sub(packed, 1, ends) == route .. ' ' and ends
end

local function rules_of(packed, ends)
  local words = '^%S+ (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$'
  local dedup_us, window, on_late, sequence, mark_us, cap = packed:match(words, ends + 1)
  local rules = {window = tonumber(window), on_late = on_late, sequence = sequence == '1'}
  rules.dedup_us, rules.dedup_cap = tonumber(dedup_us), tonumber(cap)
  rules.mark_us = tonumber(mark_us)
  return rules
end
