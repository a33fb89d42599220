-- known_of: what is known of the due groups, some at a time: of full ones a claim takes few, and a look into a small hash
-- takes the longer the more it holds. All before the first write but what is read of later groups, from the same keys.
-- Needs what claim.lua binds, and: memory.
local leased, marks, held_back, last_known, before, step = {}, {}, {}, 0, 0, 8
local function facts_of(i) -- the lease and watermark of a due group, or false, and whether it is paused
  if i > last_known then
    last_known, before, step = math.min(#due, i + step - 1), i - 1, step * 4
    local some = {unpack(due, i, last_known)}
    leased, marks = call('HMGET', leases, unpack(some)), marks_of(some, tonumber(policy[7] or 0))
    held_back = some_paused and call('SMISMEMBER', paused, unpack(some)) or {}
  end
  return leased[i - before], marks[i - before], held_back[i - before] == 1
end
