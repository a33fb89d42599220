-- check_letters: checks dead letters: each has a time and a content. `seen` and `tell` are those
-- of check_members; each ledger is told, behind the clock, as there.
--+ repair/is_enough
--+ record
local function tell_ledger(what, letter, kept, clock, tell)
  local _, head = kept:find('^[^\n]*\n[^\n]*\n') -- score and failure
  local _, _, ledger = cut(sub(kept, (head or #kept) + 1))
  if ledger ~= '' then
    tell(what, letter, clock .. ' ' .. ledger, false)
  end
end

local function check_letters(names, seen, tell)
  for _, letter in ipairs(names) do
    local died, kept = call('ZSCORE', dead, letter), call('HGET', dead_letters, letter)
    if died and not kept and tell('dead letter without content', letter, died) then
      call('ZREM', dead, letter)
    end
    if kept and not died and tell('dead letter unlisted', letter) then
      call('ZADD', dead, fmt('%.0f', now), letter)
    end
    tell_ledger('dead letter ledger broken', letter, kept or '', seen.clock, tell)
    if is_enough(seen, kept or '') then return end
  end
end

local function check_skipped(names, seen, tell)
  for _, letter in ipairs(names) do
    local kept = call('HGET', skipped, letter) or ''
    tell_ledger('skipped ledger broken', letter, kept, seen.clock, tell)
  end
end
