-- marks_of: the watermark of each of some groups, or false.
--+ memory/sequences
--+ memory/known
local function marks_of(groups, window)
  local keys, found = known('watermarks', window), {}
  if call('EXISTS', sequences) == 1 then
    table.insert(keys, 1, sequences)
  end
  for _, key in ipairs(keys) do
    for i, mark in ipairs(call('HMGET', key, unpack(groups))) do
      found[i] = found[i] or mark
    end
  end
  for i = 1, #groups do
    found[i] = found[i] or false
  end
  return found
end
