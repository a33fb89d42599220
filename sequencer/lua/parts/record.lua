-- record: cuts a record, whose form is said in store/record.py. Besides this part, parts/ledger and
-- opens_at no script knows it. Returns the flag as if there were no ledger; the due time or ""; the
-- ledger with the digits before it, "" for none; and where the envelope begins.
local function cut(record)
  local flag, due, at = sub(record, 21, 21), '', 22
  local has_ledger = flag:find('[aodtr]')
  if has_ledger then flag = flag == 'o' and '0' or flag:upper() end
  if flag == 'D' or flag == 'T' then due, at = sub(record, 22, 37), 38 end
  if not has_ledger then return flag, due, '', at end
  local size = sub(record, at + 5, at + 10):match('^%x%x%x%x%x%x$') or '0'
  local envelope_at = at + 11 + tonumber(size, 16)
  return flag, due, sub(record, at, envelope_at - 1), envelope_at
end

-- What stands before the envelope of a record, of the pieces that parts/record cuts.
local function head_of(stamp, attempts, flag, due, ledger)
  if ledger ~= '' then flag = flag:find('[ADTR]') and flag:lower() or 'o' end
  return stamp .. attempts .. flag .. due .. ledger
end
