-- record: an incident as the hash of alerts keeps it. JSON {opened, seen, quiet, resolved: us;
-- value, limit, text, was, heads; to: {target: {n, said, sent, hold, asked}}}. Every number is
-- text: as a number in JSON one of 16 digits would be rounded. `limit`: the one by which it is
-- open; `quiet`: since when the condition is below it; `resolved`: since when it is over; `was`:
-- the text as it was last above its limit; `heads`: what could be named of it, until each target
-- took a message. Of a target: `n` messages it took, or may have taken; `said` "open" or
-- "resolved", as it took it last, "resolving" where it may have taken that, none where it may have
-- taken "open"; `sent` when it took one last; `hold` until when one caller alone may send; `asked`
-- when a caller that has this target was here last.
local function record_of(text)
  local function read()
    local found = cjson.decode(text)
    return type(found.to) == 'table' and tonumber(found.opened) and found or nil
  end
  local is_read, found = xpcall(read, function() end)
  return is_read and found or nil
end

-- Whether nothing is left to be told of it.
local function is_done(record)
  if not record.resolved then return false end
  for _, to in pairs(record.to) do
    if to.said ~= 'resolved' then return false end
  end
  return true
end
