-- one_by_one: messages each by itself, where a policy concerns them, or one of their ids may be
-- there already. Besides what by_group notes in `done`: {marks = by position the fate and the
-- stamp, first = group -> from when on the earliest of its messages may be handled (none for a
-- group of the quick way: now), late = messages that come too late, refused = the marks of what
-- was refused}.
--+ append/message
--+ record
--+ append/fate
--+ memory/again
--+ remove_pending
local function note_stored(done, i, group, at)
  local first = done.first
  done.stored[#done.stored + 1] = i
  if not first[group] then done.list[#done.list + 1] = group end
  first[group] = math.min(at, first[group] or at)
end

-- What becomes of a message, and the stamp that is told.
local function store_closely(batch, i, rules, done)
  local seconds, us = stamp_of(batch, i)
  local group, id = word_of(batch, i)
  local order, body, stamp = prefix .. 'order:' .. group, prefix .. 'body:' .. group, seconds .. us
  local head, score, at = arrival(batch, i, seconds, us, stamp, rules.window)
  local fate = fate_of(batch, i, score, rules)
  if fate == '=' then return fate, '0000000000000000' end
  if fate == '#' or fate == '!' or fate == '*' then return fate, stamp end
  local record = head .. ARGV[3 + i]
  if fate ~= '+' then
    done.late[#done.late + 1] = {i, fate, stamp, score, record}
    return fate, stamp
  end
  if rules.replaces and not rules.dry_run then
    note_again(group, id, rules.dedup_us)
    local old, old_score, failure = remove_pending(group, id)
    at = old and now or at -- what lies behind the old one may be due
    if old and rules.history then
      rules.history.add('r', group, id, old_score or '', failure, old)
    end
  end
  local new = 1
  if not rules.dry_run then
    new = pcall('HSETNX', body, id, record)
  elseif not rules.replaces then
    new = 1 - pcall('HEXISTS', body, id)
  end
  if new == 0 then return compare(batch, i, order, body) end
  if new ~= 1 then
    done.failure = new
  elseif not rules.dry_run then
    note_stored(done, i, group, at)
    local added = pcall('ZADD', order, score, stamp .. id)
    if type(added) == 'table' then done.failure = added end
  end
  return fate, stamp
end

local function store_one_by_one(batch, positions, rules, done)
  local marks = done.marks
  for _, i in ipairs(positions) do
    if done.failure then return end
    local fate, stamp = store_closely(batch, i, rules, done)
    if fate == '!' or fate == '#' or fate == '<' or fate == '*' then
      done.refused = done.refused .. fate
    end
    marks[2 * i - 1] = fate
    marks[2 * i] = stamp
  end
end
