-- stamps: what is stored of a message that no policy concerns, and the stamp that it gets. Needs what append.lua binds.
local base, high = clock % 1000000, sub(fmt('%.0f', clock), 1, -7)
local function stamp_of(i) -- in two parts: seconds, and us within
  local us = base + i
  if us < 1000000 then return high, fmt('%06d', us) end
  local text = fmt('%.0f', clock + i)
  return sub(text, 1, -7), sub(text, -6)
end

local function parts_of(i) -- id, record, score, member
  local id, score, seconds, us = words[3 * i - 1], words[3 * i], stamp_of(i)
  if score ~= '' then return id, seconds .. us .. '00000' .. ARGV[4 + i], score, seconds .. us .. id end
  return id, seconds .. us .. '0000A' .. ARGV[4 + i], seconds .. '.' .. us, seconds .. us .. id
end
