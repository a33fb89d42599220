-- number_of: the number that a sequence has come to, by its watermark.
local function number_of(mark)
  return tonumber((mark or '0'):match('%d+')) or 0
end
