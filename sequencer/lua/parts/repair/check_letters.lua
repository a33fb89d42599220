-- check_letters: checks dead letters: each has a time and a content. Needs: dead, letters, now,
-- call, fmt.
local function check_letters(names, tell)
  for _, letter in ipairs(names) do
    local died = call('ZSCORE', dead, letter)
    local is_kept = call('HEXISTS', letters, letter) == 1
    if died and not is_kept and tell('no content', letter, died) then
      call('ZREM', dead, letter)
    end
    if is_kept and not died and tell('unlisted', letter) then
      call('ZADD', dead, fmt('%.0f', now), letter)
    end
  end
end
