-- of_letter: what history says of a dead letter that is deleted: how it ended, with its error.
-- `outcome`: its letter; `letter`: 16-digit stamp, group, newline, id; `kept`: its content.
--+ history/behind
local function ended_letter(open, outcome, letter, kept)
  local score, failure, record = kept:match('^([^\n]*)\n([^\n]*)\n(.*)$')
  score, failure, record = score or '', failure or '', record or ''
  local text = ended_behind(outcome, letter, record, failure)
  add_ending(open, sub(letter, 17), text, score, failure, record)
end
