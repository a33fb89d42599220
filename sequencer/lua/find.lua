-- find: groups in which a message with an id waits; changes nothing.
-- ARGV[1] id
-- ARGV[2] cursor   "0" to begin, else of the answer before; about 1000 groups are looked at
-- RETURN  [cursor, "0" at the end, group, ...]; a group may come twice
local id, cursor = ARGV[1], ARGV[2]
--+ keys
--+ generation
local page = call('ZSCAN', schedule, cursor, 'COUNT', 1000)
local found = {page[1]}
for i = 1, #page[2], 2 do
  local group = page[2][i]
  if pcall('HEXISTS', prefix .. 'body:' .. group, id) == 1 then
    found[#found + 1] = group
  end
end
return found
