-- room: whether contents go into the history. A full server takes none: consumers are to drain it.
-- Asked before the first write: behind that the server refuses nothing any more. `bodies`: of the
-- policy.
local function has_room(bodies)
  return bodies == '1' and type(pcall('HINCRBY', stats, 'handled', 0)) ~= 'table'
end
