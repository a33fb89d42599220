-- members: checks members of a group's order against their records, and records against the order. They stop after 2 MB.
-- Needs what mend.lua binds, and: bury.
local looked, bytes, ahead, ENOUGH = 0, 0, 0, 2000000
local function count(record) -- whether it is enough
  looked, bytes = looked + 1, bytes + #record
  return bytes > ENOUGH
end

local function check_members(members)
  for _, member in ipairs(members) do
    local stamp, id, score = sub(member, 1, 16), sub(member, 17), call('ZSCORE', order, member)
    local record = score and call('HGET', body, id) or ''
    local is_own = stamp:match('^%d+$') and sub(record, 1, 16) == stamp
    local attempts = sub(record, 17, 20):match('^%d%d%d%d$')
    local is_lie = score and sub(record, 21, 21) == 'A' and tonumber(score) ~= (tonumber(stamp) or 0) / 1e6
    local rest = is_lie and '0' .. sub(record, 22) or sub(record, 21)
    if score and not is_own and (#record < 22 or call('ZSCORE', order, sub(record, 1, 16) .. id)) then
      if tell('no record', member, score) then call('ZREM', order, member) end
    elseif score and not (is_own and attempts) then
      if tell('head', member, sub(record, 1, 20), #record > 21) then
        call('HSET', body, id, stamp .. (attempts or '0000') .. rest)
      end
    elseif is_lie and tell('score', member, score) then call('HSET', body, id, sub(record, 1, 20) .. rest) end
    if score then ahead = math.max(ahead, tonumber(stamp) or 0) end
    if count(record) then return end
  end
end

local function check_records(ids) -- one without a place becomes a dead letter, so that nothing is lost
  for _, id in ipairs(ids) do
    local record = call('HGET', body, id) or ''
    local stamp = sub(record, 1, 16)
    if record ~= '' and not call('ZSCORE', order, stamp .. id) and tell('no place', id, stamp) then
      if #record < 22 or not stamp:match('^%d+$') then
        stamp = fmt('%016.0f', now)
        record = stamp .. '00000' .. record
      end
      local time, text = sub(record, 21, 37):match('^T(%d+)$') or stamp, 'its group had no place for it in its order'
      local failure = {member = stamp .. id, id = id, type = 'Broken', message = text, attempt = 0, at = now / 1e6}
      set_aside(group, stamp .. id, sub(time, 1, 10) .. '.' .. sub(time, 11), record, cjson.encode(failure))
      call('HDEL', body, id)
      pcall('HINCRBY', stats, 'dead', 1)
    end
    if count(record) then return end
  end
end
