-- check_memory: the keys of what is remembered have their types. Asked before the first write: Lua
-- does not roll back. Needs: prefix, memory, call, numbers.
--+ memory/numbers
local function check_memory()
  call('HLEN', memory)
  call('SCARD', prefix .. 'seen')
  call('HLEN', prefix .. 'marks')
  call('HLEN', numbers)
end
