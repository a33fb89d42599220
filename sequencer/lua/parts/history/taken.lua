-- taken: what an ack writes into the history: of the messages that it took away. What an earlier
-- sending took away is there already.
--+ history/keep
--+ ledger
-- `open`: the bucket, nil where no history is kept; `texts`: of each member of each entry what is
-- said of it, or that and its last ledger.
local function taken_in(open, texts)
  if not open then return nil end
  local taken, kept = {}, {}

  -- Looks up contents, before they are taken away.
  function taken.look(group, order, members, from, count)
    if not open.takes_bodies then return end
    local ids = {}
    for j = 1, count do
      ids[j] = sub(members[from + j - 1], 17)
    end
    kept.records = pcall('HMGET', prefix .. 'body:' .. group, unpack(ids))
    kept.scores = pcall('ZMSCORE', order, unpack(members, from, from + count - 1))
    kept.failure = call('HGET', failures, group) or ''
  end

  local function content_of(j, member, ledger) -- score, failure, record
    if not open.takes_bodies then return end
    local record, failure = kept.records[j] or '', kept.failure
    if ledger and record ~= '' then record = rewritten(record, '', ledger) end
    if not failure:find(sub(member, 1, 16), 1, true) then failure = '' end
    return kept.scores[j] or '', failure, record
  end

  -- `ids`: group, newline, id of each, behind `first`; `which` were taken, by position; nil: all.
  function taken.add(i, members, from, ids, first, which)
    for j, text in ipairs(texts[i] or {}) do
      local ledger = nil
      if type(text) == 'table' then text, ledger = text[1], text[2] end
      if not which or which[j] then
        add_ending(open, ids[first + j], text, content_of(j, members[from + j - 1], ledger))
      end
    end
  end

  function taken.keep()
    keep_history(open)
  end

  return taken
end
