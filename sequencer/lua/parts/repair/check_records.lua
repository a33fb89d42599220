-- check_records: checks records of a group against its order. One without a place becomes a dead
-- letter, so that nothing is lost.
--+ repair/is_enough
--+ record
--+ set_aside
local function give_up(group, body, id, record)
  local stamp = sub(record, 1, 16)
  if #record < 22 or not stamp:match('^%d+$') then
    stamp = fmt('%016.0f', now)
    record = stamp .. '00000' .. record
  end
  local flag, due = cut(record)
  local is_time = flag == 'T' and due:match('^%d+$')
  local time, member = is_time and due or stamp, stamp .. id
  local text = 'its group had no place for it in its order'
  if flag ~= 'A' and not is_time then
    text = text .. '; its score was lost with that, and its arrival stands in for it'
  end
  local failure = {
    member = member, id = id, type = 'Broken', message = text, attempt = 0, at = now / 1e6,
  }
  local score = sub(time, 1, 10) .. '.' .. sub(time, 11)
  set_aside(group, member, score, record, cjson.encode(failure))
  call('HDEL', body, id)
  pcall('HINCRBY', stats, 'dead', 1)
end

local function check_records(group, order, body, ids, seen, tell)
  for _, id in ipairs(ids) do
    local record = call('HGET', body, id) or ''
    local stamp = sub(record, 1, 16)
    local is_lost = record ~= '' and not call('ZSCORE', order, stamp .. id)
    if is_lost and tell('record without place', id, stamp) then
      give_up(group, body, id, record)
    end
    if is_enough(seen, record) then return end
  end
end
