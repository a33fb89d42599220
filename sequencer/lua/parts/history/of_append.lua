-- of_append: what an append writes into the history. Needs: prefix, call, sub, open_history,
-- keep_history, ended_text.
local function history_of_append()
  local rules = call('HMGET', prefix .. 'policy', 'history_us', 'history_cap')
  local open, entries, ended = open_history(rules[1], rules[2]), {}, {}

  function ended.add(letter, group, id, record)
    entries[#entries + 1] = group .. '\n' .. id
    entries[#entries + 1] = ended_text(letter, record, sub(record, 17, 20))
  end

  function ended.keep()
    keep_history(open, entries)
  end

  return open and ended
end
