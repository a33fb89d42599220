-- keep_highest: keeps an acknowledgement that was on its way for long, and repeated meanwhile,
-- from setting a watermark back.
--+ memory/marks_of
local function height(mark)
  return tonumber((mark or ''):match('^#?(%S+)') or nil)
end

-- Those of group, watermark, group ... that stand above what is known.
local function keep_highest(pairs_, window)
  local groups, found = {}, {}
  for i = 1, #pairs_, 2 do
    groups[#groups + 1] = pairs_[i]
  end
  for i, mark in ipairs(#groups > 0 and marks_of(groups, window) or {}) do
    if not height(mark) or height(pairs_[2 * i]) > height(mark) then
      found[#found + 1] = groups[i]
      found[#found + 1] = pairs_[2 * i]
    end
  end
  return found
end
