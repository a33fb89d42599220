-- record: an incident as the hash of alerts keeps it. JSON {opened, seen, quiet, resolved: us;
-- value, limit, text, was; to: {target: {n, said, sent, hold, asked}}}, all text, as JSON
-- rounds numbers of 16 digits. `limit`: the one by which it is open; `quiet`, `resolved`: since
-- when it is below that, and over; `was`: the text when it was last above. Of a target: `n`
-- messages it took, or may have; `said` "open" or "resolved", as it took it last, "resolving" where
-- it may have, none where it may have taken "open"; `sent`, when; `hold`, until when one caller may
-- send; `asked`, when one was here.
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
