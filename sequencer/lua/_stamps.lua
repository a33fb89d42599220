-- stamps: what is stored of a message that no policy concerns, and the stamp that it gets. Needs what append.lua binds.
local base, high = clock % 1000000, sub(fmt('%.0f', clock), 1, -7)
local function stamp_of(i) -- in two parts: seconds, and us within
  local us = base + i
  if us < 1000000 then return high, fmt('%06d', us) end
  local text = fmt('%.0f', clock + i)
  return sub(text, 1, -7), sub(text, -6)
end

local function parts_of(i) -- id, record, score, member
  local seconds, us = stamp_of(i)
  local word, head = words[i], seconds .. us
  if word[3] ~= '' then return word[2], head .. '00000' .. ARGV[3 + i], word[3], head .. word[2] end
  return word[2], head .. '0000A' .. ARGV[3 + i], seconds .. '.' .. us, head .. word[2]
end
