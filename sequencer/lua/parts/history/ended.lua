-- ended: what a script itself says of a message that ended, as store/history/ending.py reads it:
-- no run of its handler is known. `letter`: of the outcome; `stamp`: its record begins with it.
--+ history/keep
local function ended_text(letter, stamp, attempts)
  local at = math.floor(now / 1000)
  local waited = math.max(0, at - math.floor((tonumber(sub(stamp, 1, 16)) or now) / 1000))
  return letter .. fmt('%x %x %x', tonumber(attempts) or 0, at, waited)
end
