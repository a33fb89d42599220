-- ledger: puts a ledger into a record. It comes with the digits before it, as parts/record cuts
-- it.
--+ record
-- A serial counts on from the record's, and from ffff to 0000: it is newer by less than half of
-- them.
local function is_newer(ledger, before)
  local serial, known = tonumber(sub(ledger, 2, 5), 16), tonumber(sub(before, 2, 5), 16)
  if not serial or not known then return true end
  local ahead = (serial - known) % 65536
  return ahead > 0 and ahead < 32768
end

-- The record with this count of attempts and this ledger; "" leaves each as it is, and so does a
-- ledger that is not newer.
local function rewritten(record, attempts, ledger)
  attempts = attempts == '' and sub(record, 17, 20) or fmt('%04d', attempts)
  local flag, due, before, at = cut(record)
  if ledger == '' or (before ~= '' and not is_newer(ledger, before)) then
    ledger = before
  end
  return head_of(sub(record, 1, 16), attempts, flag, due, ledger) .. sub(record, at)
end
