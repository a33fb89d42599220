-- message: the words of one message of a batch, the stamp that it gets, and what is stored of it
-- where no policy concerns it. A batch is {words = flat list of group, id, score ..., due =
-- position -> time, ledger = position -> that of steps done already, total}; once the clock was
-- read, `base` and `high` are its us and its seconds.
local function word_of(batch, i) -- group, id, score
  local words = batch.words
  return words[3 * i - 2], words[3 * i - 1], words[3 * i]
end

local function set_clock(batch, clock) -- message i gets the stamp clock + i
  batch.clock = clock
  batch.base = clock % 1000000
  batch.high = sub(fmt('%.0f', clock), 1, -7)
end

local function stamp_of(batch, i) -- in two parts: seconds, and us within
  local us = batch.base + i
  if us < 1000000 then return batch.high, fmt('%06d', us) end
  local text = fmt('%.0f', batch.clock + i)
  return sub(text, 1, -7), sub(text, -6)
end

local function parts_of(batch, i) -- id, record, score, member
  local words = batch.words
  local id, score = words[3 * i - 1], words[3 * i]
  local seconds, us = stamp_of(batch, i)
  if score ~= '' then
    return id, seconds .. us .. '00000' .. ARGV[3 + i], score, seconds .. us .. id
  end
  return id, seconds .. us .. '0000A' .. ARGV[3 + i], seconds .. '.' .. us, seconds .. us .. id
end
