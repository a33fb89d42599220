-- one_by_one: messages one by one, where a policy concerns them, or one of their ids may be there already.
-- Needs what append.lua binds, and: take, arrival, stamps.
for _, i in ipairs(closer) do
  if failure then break end
  local seconds, us = stamp_of(i)
  local group, id, stamp = words[3 * i - 2], words[3 * i - 1], seconds .. us
  local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
  local head, score, at = arrival(i, seconds, us)
  local fate = fate_of(i, score, body)
  if fate == '+' then
    if is_replace and not dry_run and remove_pending(group, id) then at = now end -- what lies behind the old one may be due
    local new
    if dry_run and is_replace then new = 1 elseif dry_run then new = 1 - pcall('HEXISTS', body, id)
    else new = pcall('HSETNX', body, id, head .. ARGV[4 + i]) end
    if new == 1 and not dry_run then
      stored[#stored + 1] = i
      if not first[group] then list[#list + 1] = group; first[group] = at
      elseif at < first[group] then first[group] = at end
      local added = pcall('ZADD', order, score, stamp .. id)
      if type(added) == 'table' then failure = added end
    elseif new == 0 then
      stamp = compare(i, order, body)
      fate, stamp = sub(stamp, 1, 1), sub(stamp, 2)
    elseif new ~= 1 then failure = new end
  elseif fate == '=' then stamp = '0000000000000000'
  elseif fate ~= '#' and fate ~= '!' then late[#late + 1] = {i, fate, stamp, score, head .. ARGV[4 + i]} end
  if fate == '!' or fate == '#' or fate == '<' then refused = refused .. fate end
  marks[2 * i - 1], marks[2 * i] = fate, stamp
end
