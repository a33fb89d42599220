-- note_again: notes that a message is appended under an id that is in `dedup`, while there
-- are dead letters: in the same generation, as newline, group, newline, id. No group begins with a
-- newline.
--+ memory/known
local function note_again(group, id, window)
  if window <= 0 or call('ZCARD', prefix .. 'dead') == 0 then return end
  local entry = group .. '\n' .. id
  for _, key in ipairs(known('dedup', window)) do
    if pcall('SISMEMBER', key, entry) == 1 then
      pcall('SADD', key, '\n' .. entry)
    end
  end
end
