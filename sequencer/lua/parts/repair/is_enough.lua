-- is_enough: counts in `seen` what was looked at, {looked, bytes}; says whether it is enough.
local ENOUGH = 2000000 -- bytes

local function is_enough(seen, record)
  seen.looked = seen.looked + 1
  seen.bytes = seen.bytes + #record
  return seen.bytes > ENOUGH
end
