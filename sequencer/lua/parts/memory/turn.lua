-- turn: a new generation begins where the last one is over; before adding. Times that others wrote
-- count as none: the messages are removed by now. Says whether one began.
--+ memory/fresh
local function turn(name, window, cap, size)
  if fresh[name] and fresh[name] < cap then return false end
  local new, text = prefix .. name, fmt('%.0f', now)
  local old = new .. ':old'
  local times = call('HMGET', memory, name .. ':began', name .. ':last', name .. ':old')
  local began, last = tonumber(times[1] or nil), tonumber(times[2] or nil)
  local ended = tonumber(times[3] or nil)
  if ended and now - ended > window then
    call('UNLINK', old)
    call('HDEL', memory, name .. ':old')
  end
  if began and (now - began > window or call(size, new) >= cap) then
    call('UNLINK', old)
    if call('EXISTS', new) == 1 then
      call('RENAME', new, old)
    end
    call('HSET', memory, name .. ':old', fmt('%.0f', last or now),
      name .. ':old_began', fmt('%.0f', began))
    began = nil
  end
  if not began then
    call('HSET', memory, name .. ':began', text)
  end
  -- A little ahead, and looked at again only then: this is a tenth of an ack of one message.
  call('HSET', memory, name .. ':last', fmt('%.0f', now + math.floor(window / 1000)))
  fresh[name] = nil
  return not began
end
