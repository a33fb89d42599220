-- bumped: one attempt more: the consumer that held this head alone is gone.
local function bumped(body, id, record)
  local attempts = math.min((tonumber(sub(record, 17, 20)) or 0) + 1, 9999)
  record = sub(record, 1, 16) .. fmt('%04d', attempts) .. sub(record, 21)
  call('HSET', body, id, record)
  return record
end
