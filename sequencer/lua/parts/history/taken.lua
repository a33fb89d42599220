-- taken: what an ack writes into the history: of the messages that it took away. What an earlier
-- sending took away is there already. Needs: keep_history.
-- `open`: the bucket; `texts`: of each member of each entry.
local function taken_in(open, texts)
  local entries, taken = {}, {}

  -- `ids`: group, newline, id of each, behind `first`; `which` were taken, by position; nil: all.
  function taken.add(i, ids, first, which)
    for j, text in ipairs(texts[i] or {}) do
      if not which or which[j] then
        entries[#entries + 1] = ids[first + j]
        entries[#entries + 1] = text
      end
    end
  end

  function taken.keep()
    keep_history(open, entries)
  end

  return taken
end
