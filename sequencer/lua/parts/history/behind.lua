-- behind: what a script says of a message that ended behind a failure: how, and with which error.
--+ failure
--+ history/keep
local function clean(word)
  return (tostring(word or ''):gsub('%c', ' '))
end

-- `letter`: of the outcome; `failure`: as it is kept, or "": it knows the attempts of a message
-- whose record does not count them. `text`: how and when, perhaps with consumer and kind, where the
-- caller knows that.
local function ended_behind(letter, member, record, failure, text)
  local known = failure ~= '' and failure_of(failure) or nil
  if not text or text == '' then
    text = ended_text(letter, member, known and tonumber(known.attempt) or sub(record, 17, 20))
  end
  if not known then return text end
  local _, lines = text:gsub('\n', '')
  local said = {text, clean(known.owner), clean(known.kind), clean(first_of(known, 500))}
  for _ = 1, math.min(lines, 2) do
    table.remove(said, 2)
  end
  return table.concat(said, '\n')
end

-- Of a dead letter that is deleted. `outcome`: its letter; `letter`: 16-digit stamp, group,
-- newline, id; `kept`: its content.
local function ended_letter(open, outcome, letter, kept)
  local score, failure, record = kept:match('^([^\n]*)\n([^\n]*)\n(.*)$')
  score, failure, record = score or '', failure or '', record or ''
  local text = ended_behind(outcome, letter, record, failure)
  add_ending(open, sub(letter, 17), text, score, failure, record)
end
