-- again: notes in `dedup` that a message is appended under a known id, while there are dead
-- letters, in the same generation: newline, group, newline, id. No group begins with a newline.
--+ memory/known
-- It was not handled: it died too, or was cancelled.
local function forget_again(group, id)
  local entry = '\n' .. group .. '\n' .. id
  pcall('SREM', prefix .. 'dedup', entry)
  pcall('SREM', prefix .. 'dedup:old', entry)
end

local function note_again(group, id, window)
  if window <= 0 or call('ZCARD', prefix .. 'dead') == 0 then return end
  local entry = group .. '\n' .. id
  for _, key in ipairs(known('dedup', window)) do
    if pcall('SISMEMBER', key, entry) == 1 then
      pcall('SADD', key, '\n' .. entry)
    end
  end
end
