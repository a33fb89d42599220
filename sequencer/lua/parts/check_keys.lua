-- check_keys: what may be written has its types. Asked before the first write: Lua does not roll
-- back.
--+ memory/remember
local function check_keys()
  check_memory()
  call('LLEN', dispatch)
  call('HLEN', stats)
  call('ZCARD', schedule)
  call('ZCARD', dead)
  call('HLEN', dead_letters)
end
