-- append: adds messages of one lane, each to its group; a new group becomes due and wakes a consumer.
-- KEYS[1] schedule zset; KEYS[2] clock string; KEYS[3] dispatch list; KEYS[4] stats hash: what each append may write. The
-- lane's other keys begin as the first does; naming them too would cost one message 2 % of its time
-- ARGV[1] on_conflict "none": store nothing; "others": store the rest; "error": store nothing, error reply (in MULTI);
--                     "replace": take the place of the id's pending message, with a stamp of its own, and store the
--                     rest; "error_replace": the same as "error" (in MULTI)
-- ARGV[2] dry_run     "1": store nothing in any case, only say what would be; "0"
-- ARGV[3] now_us      "" for the server's time
-- ARGV[4] words       JSON [[group, id, score or "", group, id, score or "", ...], [position from 1 of a message that
--                     is due later, us or "+" and us from now, ...]]; at most 1000 messages, an id once per group. ""
--                     for one message that is due now, and whose words are no JSON
-- ARGV[5] envelopes   ... one argument a message, in the same order; where words is "", behind the only one:
-- ARGV[6] group
-- ARGV[7] id
-- ARGV[8] score       or ""
-- RETURN  one string, 17 characters a message: "+" stored, "=" was there or was handled, "!" other content, "<" late and
--         refused, "~" late and dropped, "x" late and a dead letter, "#" its number is pending under another id; then
--         its stamp (zeros: it was handled). Where there are several, and all went the quick way (_batch.lua), only what
--         is said of the first: all are stored, each with a stamp one above that of the one before
-- ERROR   IDCONFLICT or LATE when on_conflict is "error"; SEQUENCE for a score that is no number of a sequence;
--         OOM at maxmemory (SET is refused, and comes first)
local schedule, clock_key, dispatch, stats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local on_conflict, dry_run, now, words, envelope = ARGV[1], ARGV[2] == '1', tonumber(ARGV[3]), ARGV[4], ARGV[5]
local group, id, score = ARGV[6], ARGV[7], ARGV[8]
local call, pcall, fmt, sub = redis.call, redis.pcall, string.format, string.sub
local prefix = sub(schedule, 1, -9)
if not now then local t = call('TIME'); now = t[1] * 1000000 + t[2] end
call('HLEN', stats)
local policy = call('HMGET', prefix .. 'policy', 'window_us', 'on_late', 'sequence', 'dedup_us', 'mark_us', 'dedup_cap')
local window, on_late, sequence = policy[1] or '0', policy[2] or 'handle', policy[3] == '1'
local is_plain = window == '0' and on_late == 'handle' and not sequence
--+ clock
--+ append/single
--+ rights
local leases, failures, memory = prefix .. 'leases', prefix .. 'failures', prefix .. 'memory'
window = tonumber(window)
local dues, due = {}, {} -- `words`: flat, since a table for each message costs more than all that it holds
if words == '' then words = {group, id, score} else words, dues = unpack(cjson.decode(words)) end
for k = 1, #dues, 2 do due[dues[k]] = dues[k + 1] end
local total = #words / 3
local function word_of(i) return words[3 * i - 2], words[3 * i - 1], words[3 * i] end -- group, id, score
local is_replace = sub(on_conflict, -7) == 'replace'
local is_error = sub(on_conflict, 1, 5) == 'error'
is_plain = is_plain and not (dry_run or is_replace)
local seen, marked = {}, nil -- by position: whether the id was handled lately; the group's watermark
local hinted, FEW = call('LLEN', dispatch), 32
local later = call('ZRANGEBYSCORE', schedule, '(' .. fmt('%.0f', now), 'inf', 'LIMIT', 0, FEW + 1)
call('ZMSCORE', schedule, ''); call('ZSCORE', schedule, '')
call('HEXISTS', leases, ''); call('HEXISTS', failures, '')
--+ memory
--+ wake
--+ remove_pending
--+ set_aside
--+ append/arrival
if sequence or on_late ~= 'handle' then check_memory(); call('ZCARD', prefix .. 'dead'); call('HLEN', prefix .. 'letters') end
local wrong = look()
if wrong then return redis.error_reply(wrong) end
local clock = math.max(lane_clock(), now - 1)
call('SET', clock_key, fmt('%.0f', clock + total))

-- Storing is tried at once, and undone exactly where something was refused: a look at every id before the
-- first write would cost a third of the script's time for the sake of the rare case.
-- `list`: groups that got messages; `first`: from when on the earliest of these may be handled;
-- none for a group of the quick way: now.
local marks, stored, late, list, first, refused, failure = {}, {}, {}, {}, {}, '', nil
--+ append/stamps
--+ append/by_group
--+ append/settle
local closer = store_groups()
--+ append/one_by_one
if failure or (refused ~= '' and on_conflict ~= 'others' and on_conflict ~= 'replace') then
  for _, i in ipairs(stored) do remove_pending(word_of(i)) end
  local _, count = refused:gsub('<', '')
  if count > 0 and not dry_run then pcall('HINCRBY', stats, 'late', count); pcall('HINCRBY', stats, 'refused', count) end
  if failure then return failure end
  if is_error and refused == '<' then return redis.error_reply('LATE its score lies below one handled') end
  if is_error then return redis.error_reply(refused:find('#', 1, true)
    and 'IDCONFLICT its number is pending under another id' or 'IDCONFLICT the id is pending with other content') end
elseif not dry_run then settle(late, tonumber(policy[4] or 0), tonumber(policy[6] or 0)) end
for i = 1, closer[1] and total or 1 do
  if not marks[2 * i] then marks[2 * i - 1], marks[2 * i] = '+', table.concat({stamp_of(i)}) end
end
return table.concat(marks)
