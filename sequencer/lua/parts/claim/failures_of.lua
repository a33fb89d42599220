-- failures_of: the failures of the groups that a claim took. JSON [[position, failure], ...]; nil
-- where there is none.
local function failures_of(groups)
  local names, found = {}, {}
  for i, entry in ipairs(groups) do
    names[i] = entry[1]
  end
  for i, failure in ipairs(call('HMGET', failures, unpack(names))) do
    if failure then
      found[#found + 1] = {i, failure}
    end
  end
  return found[1] and cjson.encode(found) or nil
end
