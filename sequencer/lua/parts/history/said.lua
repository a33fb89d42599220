-- said: what history says besides of a message that ended behind a failure: consumer, kind, error.
-- Needs: failure_of, first_of.
--+ failure/failure_of
--+ failure/first_of
local function clean(word)
  local text = tostring(word or ''):gsub('%c', ' ')
  return text
end

local function said_of_failure(failure) -- as it is kept, or ""
  local known = failure ~= '' and failure_of(failure)
  if not known then return '' end
  local said = {'', clean(known.owner), clean(known.kind), clean(first_of(known, 500))}
  return table.concat(said, '\n')
end
