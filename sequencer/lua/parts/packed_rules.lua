-- packed_rules: what append, claim and ack need of the lane's policy, in one text: the route, "1"
-- where no rule concerns a message ("0"), dedup_us, window_us, on_late, sequence, mark_us,
-- dedup_cap. Whoever brings the policy to a lane writes it (adopt.lua).

local NO_RULES = 'none 1 0 0 handle 0 0 0' -- of a lane without a policy

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
