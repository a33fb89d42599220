-- release: groups that have no messages any more leave the schedule, and those to be released
-- become due. An acknowledgement that was on its way for long, and repeated meanwhile, sets no
-- watermark back.
--+ memory/known
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

-- Groups that are gone; score, group ... of those released; all that are free now.
local function free_of(groups, thens, valid, orders)
  local left = #orders > 0 and call('EXISTS', unpack(orders)) or 0
  if left == 0 and #orders == #groups then return groups, {}, groups end
  local gone, visibles, free = {}, {}, {}
  for i, position in ipairs(valid) do
    local group = groups[position]
    if left == 0 or (left < #orders and call('EXISTS', orders[i]) == 0) then
      gone[#gone + 1] = group
      free[#free + 1] = group
    elseif thens[position] == '1' then
      visibles[#visibles + 1] = now_text
      visibles[#visibles + 1] = group
      free[#free + 1] = group
    end
  end
  return gone, visibles, free
end

-- Of all entries of the call, of which those at the positions `valid` hold their group, and the key
-- of each such group's order. `retire`: false where no group has a number.
local function release(groups, thens, valid, orders, hint, retire)
  local gone, visibles, free = free_of(groups, thens, valid, orders)
  if #gone > 0 then call('ZREM', schedule, unpack(gone)) end
  for _, group in ipairs(retire and gone or {}) do
    retire(group)
  end
  if #visibles > 0 then
    call('ZADD', schedule, unpack(visibles))
    if hint == '1' and call('LLEN', dispatch) == 0 then
      call('RPUSH', dispatch, visibles[2])
    end
  end
  if #free > 0 then call('HDEL', leases, unpack(free)) end
end
