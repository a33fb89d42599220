-- remember_marks: keeps the watermarks of groups, after what they passed is gone. A generation of
-- them begins with a field "" of 65 bytes: so it is a hash table from the first on. In the packed
-- form of a hash a look for one group goes through up to 512.
--+ memory/sequences
--+ memory/turn
local function add_marks(pairs_, window, cap)
  if #pairs_ == 0 or window <= 0 then return end
  if turn('watermarks', window, cap, 'HLEN') then
    call('HSET', prefix .. 'watermarks', '', ('-'):rep(65))
  end
  for from = 1, #pairs_, 4000 do
    call('HSET', prefix .. 'watermarks', unpack(pairs_, from, math.min(from + 3999, #pairs_)))
  end
end

local function remember_marks(pairs_, window, cap) -- group, watermark, group, watermark ...
  if not pairs_[2] or string.sub(pairs_[2], 1, 1) ~= '#' then
    add_marks(pairs_, window, cap)
    return
  end
  local ended = {}
  for i = 1, #pairs_, 2 do
    local group, mark = pairs_[i], pairs_[i + 1]
    if call('EXISTS', prefix .. 'order:' .. group) == 1 then
      call('HSET', sequences, group, mark)
    else
      call('HDEL', sequences, group)
      ended[#ended + 1] = group
      ended[#ended + 1] = mark
    end
  end
  add_marks(ended, window, cap)
end
