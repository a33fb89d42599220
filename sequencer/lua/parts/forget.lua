-- forget: a group that has no messages any more leaves nothing but its watermark.
--+ memory/retire
local function forget(group)
  call('ZREM', schedule, group)
  call('HDEL', leases, group)
  call('HDEL', failures, group)
  retire(group)
end
