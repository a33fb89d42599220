-- failure: what is kept of a failure: read, and its first line.
-- A failure that is kept, as a table; nil for what no client of ours wrote.
local function failure_of(text)
  local function read()
    return cjson.decode(text)
  end
  local is_read, found = xpcall(read, function() end)
  return is_read and type(found) == 'table' and found or nil
end

-- The first line of what a failure says, at most this many bytes.
local function first_of(failure, most)
  local said = tostring(failure.type or '') .. ': ' .. tostring(failure.message or '')
  local text = said:match('^[^\n]*')
  local size = math.min(most, #text)
  while size < #text and size > 0 and text:byte(size + 1) >= 128 and text:byte(size + 1) < 192 do
    size = size - 1 -- not within a character
  end
  return text:sub(1, size)
end
