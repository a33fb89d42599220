-- found_in: what history says of a message that ended: the newest, if it has several; and the key
-- of the bodies of its bucket.
local function found_in_history(field)
  local buckets = listed()
  for i = #buckets - 1, 1, -2 do
    local key = prefix .. 'history:' .. buckets[i]
    local text = call('HGET', key, field)
    if text then return text, key .. ':bodies' end
  end
  return nil, nil
end
