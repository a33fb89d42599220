-- inspect: all that decides whether a group moves, at one moment; changes nothing.
-- ARGV[1] group
-- ARGV[2] id       of a message to look at too, "" for none
-- RETURN  [now_us, visible-at, lease, failure, "1" if the group is paused, "1" if the shard is,
--         messages in order or -1 for a wrong type, messages in body or -1, member and score of the
--         head, the first 37 bytes of its record, watermark; then of the message with that id its
--         member, score and record, and "1" if the id was handled lately; us of the next probe of
--         the outage that holds the shard back, us since when, its last failure; and of a message
--         that is not pending what history says, what it keeps of its content, under which id it
--         was appended again]; what there is not is ""
local group, id = ARGV[1], ARGV[2]
--+ keys
--+ generation
--+ memory/known
--+ history/content
local policy = call('HMGET', policy_key, 'mark_us', 'dedup_us', 'paused', 'probe_us')
local trouble = policy[4] and call('HMGET', outage, 'since_us', 'failure') or {}
local order, body = prefix .. 'order:' .. group, prefix .. 'body:' .. group
local size, length = pcall('ZCARD', order), pcall('HLEN', body)
local head, record = {}, ''
if type(size) == 'table' then
  size = -1
else
  head = call('ZRANGE', order, 0, 0, 'WITHSCORES')
end
if type(length) == 'table' then length = -1 end
if length >= 0 and head[1] then
  record = sub(call('HGET', body, sub(head[1], 17)) or '', 1, 37)
end

local member, score, kept, is_known = '', '', '', '0'
local ended, content, again = '', '', ''
if id ~= '' then
  kept = length >= 0 and call('HGET', body, id) or ''
  member = kept ~= '' and sub(kept, 1, 16) .. id or ''
  score = member ~= '' and size >= 0 and call('ZSCORE', order, member) or ''
  for _, name in ipairs(known('dedup', tonumber(policy[2] or 0))) do
    if call('SISMEMBER', name, group .. '\n' .. id) == 1 then is_known = '1' end
  end
  if kept == '' then ended, content, again = all_of_history(group .. '\n' .. id) end
end
local mark = marks_of({group}, tonumber(policy[1] or 0))[1] or ''
return {
  now_text, call('ZSCORE', schedule, group) or '', call('HGET', leases, group) or '',
  call('HGET', failures, group) or '', tostring(call('SISMEMBER', paused, group)),
  policy[3] or '0', size, length, head[1] or '', head[2] or '', record, mark,
  member, score, kept, is_known,
  policy[4] or '', trouble[1] or '', trouble[2] or '',
  ended, content, again,
}
