-- packed_rules: what append, claim and ack need of the shard's policy, in one text: the generation,
-- "1" where no rule concerns a message ("0"), dedup_us, window_us, on_late, sequence, mark_us,
-- dedup_cap. Whoever brings the policy to a shard writes it (sync_shard.lua).
local NO_RULES = 'none 1 0 0 handle 0 0 0' -- of a shard without a policy

-- Where the generation ends, if it is this one; "" is any.
local function generation_end(packed, generation)
  if generation == '' then return packed:find(' ', 1, true) end
  local ends = #generation + 1
  return sub(packed, 1, ends) == generation .. ' ' and ends
end

local function rules_of(packed, ends)
  local words = '^%S+ (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$'
  local dedup_us, window, on_late, sequence, mark_us, cap = packed:match(words, ends + 1)
  local rules = {window = tonumber(window), on_late = on_late, sequence = sequence == '1'}
  rules.dedup_us, rules.dedup_cap = tonumber(dedup_us), tonumber(cap)
  rules.mark_us = tonumber(mark_us)
  return rules
end
