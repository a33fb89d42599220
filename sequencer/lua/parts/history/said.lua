-- said: what history says besides of a message that ended behind a failure: consumer, kind and
-- error, as the failure has them.
--+ failure/first_of
local function clean(word)
  local text = tostring(word or ''):gsub('%c', ' ')
  return text
end

-- `text`: how and when, perhaps with consumer and kind; `known`: the failure, or nil.
local function with_error(text, known)
  if not known then return text end
  local _, lines = text:gsub('\n', '')
  local said = {text, clean(known.owner), clean(known.kind), clean(first_of(known, 500))}
  for _ = 1, math.min(lines, 2) do
    table.remove(said, 2)
  end
  return table.concat(said, '\n')
end
