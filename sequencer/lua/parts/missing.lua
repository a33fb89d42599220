-- missing: counts how often in a row a message was given back, as the version lacks what it needs,
-- and since when. Returns the failure to keep. Needs: now, fmt, sub.
local function count_missing(failure, before, member)
  local count, since = (before or ''):match('^{"missing":(%d+),"missing_us":(%d+),')
  if not count or not before:find(sub(member, 1, 16), 1, true) then
    count, since = 0, fmt('%.0f', now)
  end
  return fmt('{"missing":%d,"missing_us":%s,', count + 1, since) .. sub(failure, 2)
end
