-- missing: counts how often in a row a message was released, as the version lacks what it needs,
-- and since when. `before`: its failure so far. Returns the failure to keep.
local function count_missing(failure, before)
  local count, since = before:match('^{"missing":(%d+),"missing_us":(%d+),')
  count, since = (count or 0) + 1, since or fmt('%.0f', now)
  return fmt('{"missing":%d,"missing_us":%s,', count, since) .. sub(failure, 2)
end
