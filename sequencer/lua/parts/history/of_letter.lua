-- of_letter: what history says of a dead letter that is deleted: how it ended, with its error.
-- Needs: sub, ended_behind.
-- `outcome`: its letter; `letter`: 16-digit stamp, group, newline, id; `kept`: its content.
local function ended_letter(entries, outcome, letter, kept)
  local failure, record = kept:match('^[^\n]*\n([^\n]*)\n(.*)$')
  entries[#entries + 1] = sub(letter, 17)
  entries[#entries + 1] = ended_behind(outcome, letter, record or '', failure or '')
end
