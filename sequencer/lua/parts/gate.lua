-- gate: from when on a message at the head may be handled. Needs: policy (window_us, sequence, gap_us, on_gap), now, sub.
local window, sequence, gap_us = tonumber(policy[2] or 0), policy[3] == '1', tonumber(policy[4] or 0)
local gap, halted = false, {} -- whether the message looked at last waits for a missing number; what the reply tells
local function opens(member, score, record, mark) -- 0: now; else us; math.huge: parked at a gap
  local flag, at, arrived = sub(record, 21, 21), 0, tonumber(sub(member, 1, 16)) or 0
  gap = false
  if flag == 'D' or flag == 'T' then at = tonumber(sub(record, 22, 37)) or 0 end
  if window > 0 and flag ~= 'R' then at = math.max(at, arrived + window) end
  if sequence and flag ~= 'R' and tonumber(score) > mark + 1 then
    if now < arrived + gap_us then gap = arrived + gap_us >= at; at = math.max(at, arrived + gap_us)
    elseif policy[5] ~= 'skip' then gap = true; return math.huge end
  end
  return at > now and at or 0
end
local function number_of(mark) -- the number a sequence has come to
  return sequence and tonumber((mark or '0'):match('%d+')) or 0
end
