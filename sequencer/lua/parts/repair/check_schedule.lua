-- check_schedule: whether what the schedule, the lease and the failure say of a group follows from
-- its messages.
--+ number_of
--+ memory/known
local function check_empty(group, visible, lease, failure, tell) -- of a group that has no messages
  local what = visible and 'empty group scheduled' or lease and 'lease without group'
    or failure and 'failure without group'
  if what and tell(what, group) then
    call('ZREM', schedule, group)
    call('HDEL', leases, group)
    call('HDEL', failures, group)
  end
end

local function check_lease(group, visible, lease, tell) -- its token, or 0 where it is no sound one
  if not lease then return 0 end
  local token = tonumber(sub(lease, 1, 16):match('^' .. ('%d'):rep(16) .. '$') or 9e15)
  if visible ~= math.huge and token < 9e15 then return token end
  if tell(visible == math.huge and 'leased and parked' or 'lease unreadable', group, lease) then
    call('HDEL', leases, group)
  end
  return 0
end

-- The clock is not behind a stamp that was given.
local function check_ahead(group, clock, ahead, tell)
  if ahead > clock and tell('stamp ahead of clock', group, fmt('%.0f', ahead), ahead < 9e15) then
    call('SET', clock_key, fmt('%.0f', ahead))
  end
end

-- Whether it must become due. `mark_us`: how long a watermark is known, where a gap parks it.
local function check_visible(group, visible, failure, number, mark_us, tell)
  if not visible then
    return tell('group unscheduled' .. (failure and ' behind a failure' or ''), group)
  end
  if visible == math.huge and not failure then
    local is_gap = mark_us and tonumber(number) > number_of(marks_of({group}, mark_us)[1]) + 1
    return not is_gap and tell('parked without reason', group)
  end
  if visible >= 9e15 and visible < math.huge and call('SISMEMBER', paused, group) == 0 then
    return tell('paused without entry', group)
  end
  return false
end
