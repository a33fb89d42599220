-- remember_ids: keeps the ids of handled messages for their window.
--+ memory/turn
local function remember_ids(entries, window, cap) -- group, newline, id of each
  if #entries == 0 or window <= 0 then return end
  turn('dedup', window, cap, 'SCARD')
  for from = 1, #entries, 4000 do
    call('SADD', prefix .. 'dedup', unpack(entries, from, math.min(from + 3999, #entries)))
  end
end
