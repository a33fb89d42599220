-- content: all that history has of a message that ended; "" for what it has not.
-- How it ended, of the newest where it has several; and the key of the bodies of that bucket.
local function found_in_history(field)
  local buckets = call('ZRANGEBYSCORE', prefix .. 'histories', '-inf', 'inf', 'WITHSCORES')
  for i = #buckets - 1, 1, -2 do
    local key = prefix .. 'history:' .. buckets[i]
    local text = call('HGET', key, field)
    if text then return text, key .. ':bodies' end
  end
  return nil, nil
end

-- How it ended; what is kept of it, as of a dead letter; the id under which it was appended again;
-- the key that has both.
local function all_of_history(field)
  local text, bodies = found_in_history(field)
  if not text then return '', '', '', nil end
  local kept, link = unpack(call('HMGET', bodies, field, '\n' .. field))
  local stamp = (kept or ''):match('^[^\n]*\n[^\n]*\n(%d+)') or ''
  local again = link and sub(stamp, 1, 16) == sub(link, 1, 16) and sub(link, 17) or ''
  return text, kept or '', again, bodies
end
