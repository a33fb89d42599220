-- take_away: takes a message out of its group for good: as a dead letter, or, where `text` says how
-- it ended, into the history. Its id stays known, and `mark`, unless that is "", as watermark.
--+ history/keep
--+ memory/remember
--+ remove
--+ set_aside
local function take_away(group, member, score, record, failure, mark, history, text)
  local dedup_us, dedup_cap, mark_us, mark_cap =
    policy_numbers('dedup_us', 'dedup_cap', 'mark_us', 'mark_cap')
  local ids = {}
  if text then
    add_ending(history, group .. '\n' .. sub(member, 17), text, score, failure, record)
  else
    set_aside(group, member, score, record, failure)
  end
  remove(group, {member}, 1, 1, ids, prefix .. 'order:' .. group)
  remember_ids(ids, dedup_us, dedup_cap)
  if mark ~= '' then remember_marks({group, mark}, mark_us, mark_cap) end
end
