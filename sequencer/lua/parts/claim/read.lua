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

local is_gated, ids = window > 0 or sequence, {} -- `ids`: one table for all reads, each names how much of it
local function read(body, expired, mark) -- appends to `records`; how many, and when the head may be handled or 0
  local sub, byte, records, left, is_closer, is_over = sub, byte, records, bytes, is_gated or expired, false -- copies: found sooner
  local from, step, total, count, opens_at = 1, 16, #range / stride, #records, 0
  local first = count
  while from <= total and left > 0 and not is_over do
    local fit = count > 0 and math.ceil(left * count / (tonumber(ARGV[6]) - left)) or step -- of the size of those before
    local members, size, at = range, math.min(total - from + 1, step, fit), (from - 1) * stride + 1
    for j = 1, size do ids[j] = sub(members[at], 17); at = at + stride end
    local values = pcall('HMGET', body, unpack(ids, 1, size))
    for j = 1, size do
      local value = values[j] or ''
      local flag = byte(value, 21)
      if flag ~= 65 or is_closer then
        if flag ~= 65 and not is_scored then is_scored = true; range_of(order, last) end
        if value ~= '' and (is_gated or (flag ~= 65 and flag ~= 48)) then
          local member, score = range[(from + j - 2) * stride + 1], range[(from + j - 1) * stride]
          opens_at = opens(member, score, value, mark)
          if opens_at > 0 then is_over = true; break end
          if sequence and flag ~= 82 then mark = math.max(mark, tonumber(score)) end -- a redriven one (R) has passed
        end
        if expired and sub(expired, 17, 17) == '1' and value ~= '' then value = bumped(body, ids[j], value) end
      end
      left = left - #value - 40
      if left < 0 and count > 0 then is_over = true; break end
      count = count + 1; records[count] = value
    end
    from, step = from + size, math.min(step * 4, 1000)
  end
  bytes = left
  return count - first, count == first and opens_at or 0
end
