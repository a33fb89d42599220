-- undo: takes back what was stored before something was refused; reads and writes what is noted in
-- `done` (one_by_one).
--+ append/message
--+ remove_pending
local function undo(batch, done, dry_run)
  for _, i in ipairs(done.stored) do
    remove_pending(word_of(batch, i))
  end
  local _, late = done.refused:gsub('<', '')
  if late > 0 and not dry_run then
    pcall('HINCRBY', stats, 'late', late)
    pcall('HINCRBY', stats, 'refused', late)
  end
end

local function error_of(refused) -- the text of the error reply, by the marks of what was refused
  if refused == '<' then return 'LATE its score lies below one handled' end
  if refused:find('*', 1, true) then
    return 'EFFECTS the id is pending, and effects of its steps are noted'
  end
  if refused:find('#', 1, true) then
    return 'IDCONFLICT its number is pending under another id'
  end
  return 'IDCONFLICT the id is pending with other content'
end
