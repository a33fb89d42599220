-- of_append: what an append writes into the history.
--+ history/keep
local function history_of_append()
  local open, ended = open_history(true), {}

  function ended.add(letter, group, id, score, failure, record)
    local text = ended_text(letter, record, sub(record, 17, 20))
    add_ending(open, group .. '\n' .. id, text, score, failure, record)
  end

  function ended.keep()
    keep_history(open)
  end

  return open and ended
end
