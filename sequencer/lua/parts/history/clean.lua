-- clean: drops buckets of the history. Those that are over for the window, and the oldest where
-- all have more than `room` entries. Returns how many entries went, in which buckets, and when the
-- next bucket is over for the window.
local function clean_history(window, room)
  local found, total, gone, names, due = listed(), 0, 0, {}, math.huge
  for i = #found - 1, 1, -2 do
    local name, ends = found[i], tonumber(found[i + 1])
    local key = prefix .. 'history:' .. name
    local size = math.max(0, (tonumber(pcall('HLEN', key)) or 0) - 1) -- but for the padding
    total = total + size
    if now - ends >= window or total > room then
      call('UNLINK', key, key .. ':bodies')
      call('ZREM', prefix .. 'histories', name)
      gone = gone + size
      names[name] = true
    else
      due = ends + window
    end
  end
  return gone, names, due
end
