-- found_in: what history says of a message that ended: the newest, if it has several. Needs:
-- prefix, call, listed.
local function found_in_history(field)
  local buckets = listed()
  for i = #buckets - 1, 1, -2 do
    local text = call('HGET', prefix .. 'history:' .. buckets[i], field)
    if text then return text end
  end
  return nil
end
