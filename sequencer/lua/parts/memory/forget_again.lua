-- forget_again: a message that was appended again under the id of a dead letter was not handled:
-- it died too, or was cancelled.
local function forget_again(group, id)
  local entry = '\n' .. group .. '\n' .. id
  pcall('SREM', prefix .. 'dedup', entry)
  pcall('SREM', prefix .. 'dedup:old', entry)
end
