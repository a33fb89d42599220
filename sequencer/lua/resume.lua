-- resume: lets parked or waiting groups go on at once, with fresh attempts; may first take away the
-- failed head of each, or one whose lease ran out.
-- ARGV[1] groups   JSON [[group, digest, member, mark, ledger, told], ...]; at most 100, each once
--   digest         of the failure that the caller saw, "" for none: its length, a blank, and its
--                  last 400 bytes, which say when it was, and where (fakeredis has no
--                  redis.sha1hex). So nobody skips what they did not see
--   member         of that failure; "" for none, with is_bulk for the head
--   mark           the group's watermark once the member is passed, "" to leave it
--   ledger         of the member that stays, as its record keeps it (parts/record); "" leaves it
--   told           with an ending, of the head of a group whose lease ran out: the failure that is
--                  kept with it, where `digest` is not about it; else ""
-- ARGV[2] ending   "": the member stays; "drop": it is removed first, unless its ledger notes
--                  effects; "discard": also then; "dead": it becomes a dead letter first
-- ARGV[3] is_bulk  "1": only groups that are parked behind a failure; "0": a message that is
--                  dropped is kept as the shard's last skipped one
-- RETURN  [[status, ...], score, record]: "resumed", "due" (nothing to do; never with a ledger),
--         "leased", "changed", "missing", "unfailed", "effects", "gone" (not parked behind a
--         failure, of a bulk); score and record are those of one removed message, else ""
local words, ending, is_bulk = cjson.decode(ARGV[1]), ARGV[2], ARGV[3] == '1'
--+ keys
--+ generation
--+ ledger
--+ check_keys
--+ history/behind
--+ take_away
--+ go_on
local history = open_history()
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
check_keys()
call('HLEN', skipped)
local skip = ending ~= ''

local function head_of_group(group)
  local first = pcall('ZRANGE', prefix .. 'order:' .. group, 0, 0)
  return not first.err and first[1] or ''
end

local function refusal(group, digest, member, ledger, told, visible, failure)
  local has_lease = call('HEXISTS', leases, group) == 1
  local is_over = skip and has_lease and (visible <= now or visible == 9e15) -- it ran out
  if is_bulk and (visible ~= math.huge or failure == '') then return 'gone' end
  if visible ~= visible then return 'missing' end
  if has_lease and visible < 9e15 and not is_over then return 'leased' end
  local found = failure ~= '' and #failure .. ' ' .. sub(failure, -400) or ''
  if found ~= digest then return 'changed' end
  if skip and member == '' then return 'unfailed' end
  if not skip and ledger == '' and visible <= now then return 'due' end
  if told == '' then -- delayed, paused: a claim decides when
    return failure == '' and visible ~= math.huge and 'unfailed' or nil
  end
  return not is_over and 'unfailed' or head_of_group(group) ~= member and 'changed' or nil
end

local function take_head(group, member, score, record, failure, mark)
  local text = ending ~= 'dead' and ended_behind('s', member, record, failure) or nil
  if text and not is_bulk then
    call('UNLINK', skipped)
    local kept = score .. '\n' .. failure .. '\n' .. record
    call('HSET', skipped, letter_of(group, member), kept)
  end
  take_away(group, member, score, record, failure, mark, history, text)
  pcall('HINCRBY', stats, ending == 'dead' and 'dead' or 'skipped', 1)
end

local function resume(group, digest, member, mark, ledger, told) -- status, score, record
  local visible = tonumber(call('ZSCORE', schedule, group) or 'nan')
  local failure = call('HGET', failures, group) or ''
  if is_bulk and member == '' then member = head_of_group(group) end
  local why_not = refusal(group, digest, member, ledger, told, visible, failure)
  if why_not then return why_not end
  local body, id = prefix .. 'body:' .. group, sub(member, 17)
  local score = member ~= '' and pcall('ZSCORE', prefix .. 'order:' .. group, member)
  local record = member ~= '' and pcall('HGET', body, id)
  if type(score) == 'table' or type(record) == 'table' then return 'changed' end -- other types
  if not record or sub(record, 1, 16) ~= sub(member, 1, 16) then record = '' end
  local _, _, known = cut(record)
  if ending == 'drop' and sub(known, 1, 1) == '1' then return 'effects' end
  if skip and score then
    take_head(group, member, score, record, told ~= '' and told or failure, mark)
  elseif not skip and record ~= '' then
    call('HSET', body, id, rewritten(record, '0', ledger))
  end
  call('HDEL', failures, group)
  call('HDEL', leases, group) -- it ran out; its owner may wake, and save a step
  go_on(group, visible == 9e15 and '' or now_text) -- a paused group stays so
  return 'resumed', skip and score or '', skip and record or ''
end

local reply, score, record = {}, nil, nil
for i, word in ipairs(words) do
  reply[i], score, record = resume(unpack(word))
end
keep_history(history)
return {reply, not is_bulk and score or '', not is_bulk and record or ''}
