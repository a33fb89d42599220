-- behind: what a script says of a message that ended behind a failure. The failure knows the attempts
-- of a message whose record does not count them.
--+ failure/failure_of
--+ history/said
-- `letter`: of the outcome; `failure`: as it is kept, or "".
local function ended_behind(letter, member, record, failure)
  local known = failure ~= '' and failure_of(failure) or nil
  local attempts = known and tonumber(known.attempt) or sub(record, 17, 20)
  return with_error(ended_text(letter, member, attempts), known)
end
