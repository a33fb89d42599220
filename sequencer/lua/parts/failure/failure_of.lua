-- failure_of: a failure that is kept, as a table; nil for what no client of ours wrote.
local function failure_of(text)
  local function read()
    return cjson.decode(text)
  end
  local is_read, found = xpcall(read, function() end)
  return is_read and type(found) == 'table' and found or nil
end
