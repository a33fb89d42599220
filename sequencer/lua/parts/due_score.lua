-- due_score: a due time as a score, and the unit of a score by its magnitude, as
-- values/score_units.py has it: "s", "ms" or "us" since 1970.
local DIGITS = {s = 10, ms = 13, us = 16} -- of 16 digits of us: whole units

local function due_score(due, unit)
  return sub(due, 1, DIGITS[unit]) .. '.' .. sub(due .. '0', DIGITS[unit] + 1)
end

local function unit_of(score)
  return score < 1e11 and 's' or score < 1e14 and 'ms' or 'us'
end
