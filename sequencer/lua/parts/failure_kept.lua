-- failure_kept: a failure, with the log of those before it that the same message had: the last
-- four, each as [attempt, at, error]. What counted no attempt is none of them: an outage, or a
-- message that was released.
--+ failure
local BEFORE = 4

local function with_log(failure, before, member)
  if not before or not before:find(sub(member, 1, 16), 1, true) then return failure end
  local known = failure_of(before)
  if not known or known.member ~= member then return failure end
  local log = type(known.log) == 'table' and known.log or {}
  if not (known.outages or known.missing) then
    log[#log + 1] = {tonumber(known.attempt) or 0, tonumber(known.at) or 0, first_of(known, 200)}
  end
  while #log > BEFORE do
    table.remove(log, 1)
  end
  return #log > 0 and '{"log":' .. cjson.encode(log) .. ',' .. sub(failure, 2) or failure
end

-- Counts how often in a row a message was released, as the version lacks what it needs, and since
-- when. `before`: its failure so far. Returns the failure to keep.
local function count_missing(failure, before)
  local count, since = before:match('^{"missing":(%d+),"missing_us":(%d+),')
  count, since = (count or 0) + 1, since or fmt('%.0f', now)
  return fmt('{"missing":%d,"missing_us":%s,', count, since) .. sub(failure, 2)
end
