-- was_handled: whether a message with the id of a dead letter was handled since it died. Its death
-- made that id known too. So it is where its generation is younger, or it was appended again
-- (note_again).
--+ memory/known
local function was_handled(group, id, died, window) -- since `died`, us
  local entry, times = group .. '\n' .. id, call('HMGET', memory, 'dedup:began', 'dedup:old_began')
  for _, key in ipairs(known('dedup', window)) do
    local began = tonumber(times[key == prefix .. 'dedup' and 1 or 2] or 0) or 0
    if pcall('SISMEMBER', key, entry) == 1 then
      if died < began or pcall('SISMEMBER', key, '\n' .. entry) == 1 then return true end
    end
  end
  return false
end
