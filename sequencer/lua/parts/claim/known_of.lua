-- known_of: what is known of some of the due groups: of full ones a claim takes few, and a look
-- into a small hash takes the longer the more it holds.
--+ memory/marks_of
-- Of `count` groups from position `first` on.
local function known_of(due, first, count, mark_us, some_paused)
  local last = math.min(#due, first + count - 1)
  local some = {unpack(due, first, last)}
  local held = call('HMGET', leases, unpack(some))
  local paused_of = some_paused and call('SMISMEMBER', paused, unpack(some)) or {}
  local marks = marks_of(some, mark_us)
  return {first = first, last = last, leased = held, marks = marks, paused = paused_of}
end
