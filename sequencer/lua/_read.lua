-- read: the records of a claimed group, as far as they may be handled now and fit. They are read in growing steps, so
-- that large bodies are not read far past max_bytes. Scores are read with the members only from where a message was seen
-- whose score is not its stamp (flag A): writing them as text takes Redis 7 a fifth of a claim. Needs what claim.lua
-- binds, and: gate.
local range, stride, order, last -- of the group in hand: [member, ...] where stride is 1, [member, score, ...] where it is 2
local is_scored, byte = sequence, string.byte
local function range_of(key, upto)
  order, last = key, upto
  if is_scored then stride, range = 2, pcall('ZRANGE', order, 0, last, 'WITHSCORES')
  else stride, range = 1, pcall('ZRANGE', order, 0, last) end
end

local function bumped(body, id, record) -- one attempt more: the consumer that held this head alone is gone
  record = sub(record, 1, 16) .. fmt('%04d', math.min((tonumber(sub(record, 17, 20)) or 0) + 1, 9999)) .. sub(record, 21)
  call('HSET', body, id, record)
  return record
end

local function read(body, expired, mark) -- appends to `records`; how many, and when the head may be handled or 0
  local from, step, total, is_gated, count = 1, 16, #range / stride, window > 0 or sequence, #records
  local first = count
  while from <= total and bytes > 0 do
    local ids, size = {}, math.min(total - from + 1, step)
    for j = 1, size do ids[j] = sub(range[(from + j - 2) * stride + 1], 17) end
    local values = pcall('HMGET', body, unpack(ids))
    for j = 1, size do
      local value = values[j] or ''
      local flag = byte(value, 21)
      if flag ~= 65 and not is_scored then is_scored = true; range_of(order, last) end
      if value ~= '' and (is_gated or (flag ~= 65 and flag ~= 48)) then
        local at = (from + j - 2) * stride + 1
        local opens_at = opens(range[at], range[at + 1], value, mark)
        if opens_at > 0 then return count - first, count == first and opens_at or 0 end
        if sequence and flag ~= 82 then mark = math.max(mark, tonumber(range[at + 1])) end -- a redriven one (R) has passed
      end
      if expired and sub(expired, 17, 17) == '1' and value ~= '' then value = bumped(body, ids[j], value) end
      bytes = bytes - #value
      if bytes < 0 and count > 0 then return count - first, 0 end
      count = count + 1; records[count] = value
    end
    from, step = from + size, math.min(step * 4, 1000)
  end
  return count - first, 0
end
