-- read: the records of a claimed group, as far as they may be handled now and fit. They are read in
-- growing steps, so that large bodies are not read far past max_bytes. Scores are read with the
-- members only from where a message was seen whose score is not its stamp (flag A): writing them as
-- text takes Redis 7 a fifth of a claim. A claim has one `taken` for all its groups: {records,
-- bytes = how much room is left, max_bytes, is_scored, ids = one table for all reads}.
--+ opens_at
local byte = string.byte
local texts = {[0] = '0', '1', '2'} -- of numbers: to make one costs as much as a call

-- One attempt more: the consumer that held this head alone is gone.
local function bumped(body, id, record)
  local attempts = math.min((tonumber(sub(record, 17, 20)) or 0) + 1, 9999)
  record = sub(record, 1, 16) .. fmt('%04d', attempts) .. sub(record, 21)
  call('HSET', body, id, record)
  return record
end

-- The members of a group in order, from its head on. A group in progress: [member, ...] where
-- stride is 1, [member, score, ...] where it is 2; or its error.
local function range_of(order, last, is_scored)
  local to = texts[last] or fmt('%d', last)
  texts[last] = to
  if is_scored then return pcall('ZRANGE', order, '0', to, 'WITHSCORES'), 2 end
  return pcall('ZRANGE', order, '0', to), 1
end

-- `head`: {order, last, body, range, stride, mark, is_bumped}. Appends to the records that were
-- taken; returns how many of this group, and as opens_at does when the head may be handled.
local function read(taken, gate, head)
  local ids, records, left, is_over = taken.ids, taken.records, taken.bytes, false
  local range, stride, mark = head.range, head.stride, head.mark
  local is_gated = gate.window > 0 or gate.sequence
  local is_closer = is_gated or head.is_bumped
  local from, step, total, count = 1, 16, #range / stride, #records
  local first, at, is_gap = count, 0, false
  while from <= total and left > 0 and not is_over do
    -- Of the size of those before.
    local fit = count > 0 and math.ceil(left * count / (taken.max_bytes - left)) or step
    local size = math.min(total - from + 1, step, fit)
    local place = (from - 1) * stride + 1
    for j = 1, size do
      ids[j] = sub(range[place], 17)
      place = place + stride
    end
    local one = size == 1 and pcall('HGET', head.body, ids[1])
    local values = size > 1 and pcall('HMGET', head.body, unpack(ids, 1, size))
    for j = 1, size do
      local value = values and values[j] or one or ''
      if type(value) == 'table' then value = '' end -- an error
      local flag = byte(value, 21)
      if flag ~= 65 or is_closer then -- A
        if flag ~= 65 and flag ~= 97 and not taken.is_scored then -- a
          taken.is_scored = true
          range, stride = range_of(head.order, head.last, true)
          head.range, head.stride = range, stride
        end
        if value ~= '' and (is_gated or (flag ~= 65 and flag ~= 48)) then -- 0
          local here = (from + j - 2) * stride + 1
          at, is_gap = opens_at(gate, range[here], range[here + 1], value, mark)
          if at > 0 then
            is_over = true
            break
          end
          if gate.sequence and flag ~= 82 and flag ~= 114 then -- redriven (R, r): it has passed
            mark = math.max(mark, tonumber(range[here + 1]))
          end
        end
        if head.is_bumped and value ~= '' then
          value = bumped(head.body, ids[j], value)
        end
      end
      left = left - #value - 40
      if left < 0 and count > 0 then
        is_over = true
        break
      end
      count = count + 1
      records[count] = value
    end
    from = from + size
    step = math.min(step * 4, 1000)
  end
  taken.bytes = left
  if count > first then return count - first, 0, false end
  return 0, at, is_gap
end
