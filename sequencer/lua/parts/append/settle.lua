-- settle: the end of an append: late messages are set aside, everything is counted; or what was
-- stored before something was refused is taken back. Totals are counted by pcall, here and
-- everywhere: one that others overwrote must not end a script in the middle of what it writes.
--+ append/message
--+ append/schedule_groups
--+ memory/known
--+ memory/remember
--+ set_aside
--+ remove_pending
-- In a sequence: a watermark that is known stays so while there are messages.
local function keep_numbers(batch, stored)
  for _, i in ipairs(batch.marked and stored or {}) do
    if batch.marked[i] then
      call('HSETNX', sequences, word_of(batch, i), batch.marked[i])
    end
  end
end

-- The entries of those whose ids stay known.
local function settle_late(batch, late, count, history)
  local entries = {}
  for _, one in ipairs(late) do
    local i, fate, stamp, score, record = unpack(one)
    local group, id = word_of(batch, i)
    local name = fate == 'x' and 'dead' or fate == '~' and 'dropped' or 'refused'
    if fate == 'x' then
      local mark = tostring(batch.marked[i])
      local text = 'its score ' .. score .. ' lies below ' .. mark .. ', which was handled'
      local failure = {id = id, type = 'TooLate', message = text, attempt = 0, at = now / 1e6}
      set_aside(group, stamp .. id, score, record, cjson.encode(failure))
    end
    if fate ~= '<' then entries[#entries + 1] = group .. '\n' .. id end
    if fate == '~' and history then
      history.add('d', group, id, score, '', record)
    end
    count[name] = (count[name] or 0) + 1
    count.late = (count.late or 0) + 1
  end
  return entries
end

local function settle(batch, rules, done, waiting)
  local count = {appended = #done.stored}
  if rules.sequence then keep_numbers(batch, done.stored) end
  schedule_groups(done.list, done.first, waiting)
  local ids = settle_late(batch, done.late, count, rules.history)
  remember_ids(ids, rules.dedup_us, rules.dedup_cap)
  if rules.history then rules.history.keep() end
  for name, n in pairs(count) do
    if n > 0 then pcall('HINCRBY', stats, name, n) end
  end
end

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
