-- read: the records of a claimed group, as far as they may be handled now and fit. They are read in growing steps, so
-- that large bodies are not read far past max_bytes. Needs what claim.lua binds, and: gate.
local function bumped(body, id, record) -- one attempt more: the consumer that held this head alone is gone
  record = sub(record, 1, 16) .. fmt('%04d', math.min((tonumber(sub(record, 17, 20)) or 0) + 1, 9999)) .. sub(record, 21)
  call('HSET', body, id, record)
  return record
end

local function read(entry, range, body, expired, mark, records) -- appends to both; 0, or when the head may be handled
  local from, step, total, is_gated = 1, 16, #range / 2, window > 0 or sequence
  while from <= total and bytes > 0 do
    local ids, last = {}, math.min(total, from + step - 1)
    for j = from, last do ids[#ids + 1] = sub(range[2 * j - 1], 17) end
    local values = pcall('HMGET', body, unpack(ids))
    for j, id in ipairs(ids) do
      local value, n, at = values[j] or '', #entry, 2 * (from + j) - 3
      if value ~= '' and (is_gated or value:byte(21) ~= 48) then
        local opens_at = opens(range[at], range[at + 1], value, mark)
        if opens_at > 0 then return n == 4 and opens_at or 0 end
        if value:byte(21) ~= 82 then mark = math.max(mark, tonumber(range[at + 1])) end -- a redriven one (R) has passed
      end
      if expired and sub(expired, 17, 17) == '1' and value ~= '' then value = bumped(body, id, value) end
      bytes = bytes - #value
      if bytes < 0 and (n > 4 or records[1]) then return 0 end
      entry[n + 1], entry[n + 2], entry[n + 3] = range[at], range[at + 1], #value
      records[#records + 1], room = value, room - 1
    end
    from, step = last + 1, math.min(step * 4, 1000)
  end
  return 0
end
