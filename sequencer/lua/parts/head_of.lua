-- head_of: what stands before the envelope of a record, of the pieces that parts/record cuts.
local function head_of(stamp, attempts, flag, due, ledger)
  if ledger ~= '' then
    flag = flag:find('[ADTR]') and flag:lower() or 'o'
  end
  return stamp .. attempts .. flag .. due .. ledger
end
