-- read: the records of a claimed group, as far as they may be handled now and fit. They are read in growing steps, so
-- that large bodies are not read far past max_bytes. Needs what claim.lua binds, and: gate.
local function bumped(body, id, record) -- one attempt more: the consumer that held this head alone is gone
  record = sub(record, 1, 16) .. fmt('%04d', math.min((tonumber(sub(record, 17, 20)) or 0) + 1, 9999)) .. sub(record, 21)
  call('HSET', body, id, record)
  return record
end

local function read(range, body, expired, mark) -- appends to `records`; how many, and when the head may be handled or 0
  local from, step, total, is_gated, count = 1, 16, #range / 2, window > 0 or sequence, #records
  local first = count
  while from <= total and bytes > 0 do
    local ids, last = {}, math.min(total, from + step - 1)
    for j = from, last do ids[#ids + 1] = sub(range[2 * j - 1], 17) end
    local values = pcall('HMGET', body, unpack(ids))
    for j, id in ipairs(ids) do
      local value = values[j] or ''
      if value ~= '' and (is_gated or value:byte(21) ~= 48) then
        local score = range[2 * (from + j) - 2]
        local opens_at = opens(range[2 * (from + j) - 3], score, value, mark)
        if opens_at > 0 then return count - first, count == first and opens_at or 0 end
        if value:byte(21) ~= 82 then mark = math.max(mark, tonumber(score)) end -- a redriven one (R) has passed
      end
      if expired and sub(expired, 17, 17) == '1' and value ~= '' then value = bumped(body, id, value) end
      bytes = bytes - #value
      if bytes < 0 and count > 0 then return count - first, 0 end
      count = count + 1; records[count] = value
    end
    from, step = last + 1, math.min(step * 4, 1000)
  end
  return count - first, 0
end
