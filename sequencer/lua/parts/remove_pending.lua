-- remove_pending: takes a pending message out of its group, whoever may hold it; a failure of the
-- group that was about it goes too. Its record, its score, and that failure or ""; nil where it is
-- not there, or a right is missing.
local function remove_pending(group, id)
  local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
  local record = pcall('HGET', body, id)
  if type(record) ~= 'string' then return nil end
  local member = sub(record, 1, 16) .. id
  local score = pcall('ZSCORE', order, member)
  local removed = pcall('ZREM', order, member)
  if score and type(removed) == 'table' and not removed.err:find('WRONGTYPE') then
    return nil -- it stays whole
  end
  call('HDEL', body, id)
  local failure = call('HGET', failures, group)
  if not (failure and failure:find(sub(member, 1, 16), 1, true)) then return record, score, '' end
  call('HDEL', failures, group)
  return record, score, failure
end
