-- of_append: what an append writes into the history. Needs: prefix, call, sub, open_history,
-- add_ending, keep_history, ended_text.
local function history_of_append()
  local rules = call('HMGET', prefix .. 'policy', 'history_us', 'history_cap', 'history_bodies')
  local open, ended = open_history(rules[1], rules[2], rules[3]), {}

  function ended.add(letter, group, id, score, failure, record)
    local text = ended_text(letter, record, sub(record, 17, 20))
    add_ending(open, group .. '\n' .. id, text, score, failure, record)
  end

  function ended.keep()
    keep_history(open)
  end

  return open and ended
end
