-- fair_share: how much of what is due a claim takes. Half of the groups, so that other consumers
-- find some, and the caller's next claim: with all of them in one hand, others are idle. Counted
-- are all that look due; one that is deferred then is taken for due once. Returns how many to take,
-- and how many are due; `due` keeps one more than is taken.
local function half_of(due, max_groups)
  local all = #due
  if all > max_groups then
    all = call('ZCOUNT', schedule, '-inf', now_text)
  end
  local most = math.max(1, math.min(max_groups, math.floor(all / 2)))
  for i = #due, most + 2, -1 do
    due[i] = nil
  end
  return most, all
end

-- Where so many groups are still due, also those left to others, none gets more than its part of
-- the room, an eighth of all of it at most if there are more: one that never ends would let the
-- others wait.
local function part_of(room, due, eighth)
  return math.min(room, due < 8 and math.ceil(room / math.max(1, due)) or eighth)
end
