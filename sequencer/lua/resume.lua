-- resume: lets a parked or waiting group go on at once, with fresh attempts; may first take away
-- its failed head, or one whose lease ran out.
-- ARGV[1] group
-- ARGV[2] failure  the bytes the caller saw; "" for none. Compared, so that nobody skips what they
--                  did not see
-- ARGV[3] member   of that failure; "" for none
-- ARGV[4] ending   "": the member stays; "drop": it is removed first, and kept as the shard's last
--                  skipped one, unless its ledger notes effects; "discard": also then; "dead": it
--                  becomes a dead letter first
-- ARGV[5] mark     the group's watermark once the member is passed, "" to leave it
-- ARGV[6] ledger   of the member that stays, as its record keeps it (parts/record); "" leaves it
-- ARGV[7] told     with an ending, of the head of a group whose lease ran out: the failure that is
--                  kept with it, where ARGV[2] is not about it; else ""
-- RETURN  [status, score, record]: "resumed", "due" (nothing to do; never with a ledger),
--         "leased", "changed", "missing", "unfailed", "effects"; score and record are those of a
--         removed message, else ""
local group, failure, member, ending, mark = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local ledger, told = ARGV[6], ARGV[7]
--+ keys
--+ generation
--+ history/room
local room = has_room(call('HGET', policy_key, 'history_bodies'))
call('HDEL', leases, '') -- changes nothing; a first write that is allowed at maxmemory
local now = time_us(now_us)
local skip = ending ~= ''
local visible = tonumber(call('ZSCORE', schedule, group) or 'nan')
if visible ~= visible then return {'missing', '', ''} end
local has_lease = call('HEXISTS', leases, group) == 1
local is_over = skip and has_lease and (visible <= now or visible == 9e15) -- it ran out
if has_lease and visible < 9e15 and not is_over then return {'leased', '', ''} end
if (call('HGET', failures, group) or '') ~= failure then return {'changed', '', ''} end
if skip and member == '' then return {'unfailed', '', ''} end
if not skip and ledger == '' and visible <= now then return {'due', '', ''} end
if told ~= '' then
  if not is_over then return {'unfailed', '', ''} end
  if call('ZRANGE', prefix .. 'order:' .. group, 0, 0)[1] ~= member then
    return {'changed', '', ''}
  end
  failure = told
elseif failure == '' and visible ~= math.huge then
  return {'unfailed', '', ''} -- delayed, paused: a claim decides when
end
--+ ledger
local order, body, id = prefix .. 'order:' .. group, prefix .. 'body:' .. group, sub(member, 17)
local score, record = '', member ~= '' and call('HGET', body, id) or ''
if sub(record, 1, 16) ~= sub(member, 1, 16) then
  record = ''
end
local _, _, known = cut(record)
if ending == 'drop' and sub(known, 1, 1) == '1' then return {'effects', '', ''} end
--+ memory/check_memory
--+ memory/remember_ids
--+ memory/remember_marks
--+ memory/retire
--+ remove
--+ set_aside
--+ history/listed
--+ history/open
--+ history/keep
--+ history/ended
--+ history/behind
local policy = call('HMGET', policy_key, 'dedup_us', 'dedup_cap', 'mark_us', 'mark_cap')
local mark_us, mark_cap = tonumber(policy[3] or 0), tonumber(policy[4] or 0)
check_memory()
call('LLEN', dispatch)
call('HLEN', stats)
call('ZCARD', schedule)
call('HLEN', skipped)
call('ZCARD', prefix .. 'dead')
call('HLEN', prefix .. 'letters')
local history = open_history(room)

if member ~= '' then
  score = call('ZSCORE', order, member) or ''
  if skip then
    local ids = {}
    if ending == 'dead' and score ~= '' then
      set_aside(group, member, score, record, failure)
    elseif score ~= '' then
      call('UNLINK', skipped)
      local kept = score .. '\n' .. failure .. '\n' .. record
      call('HSET', skipped, letter_of(group, member), kept)
      local text = ended_behind('s', member, record, failure)
      add_ending(history, group .. '\n' .. id, text, score, failure, record)
      keep_history(history)
    end
    remove(group, {member}, 1, ids, order)
    remember_ids(ids, tonumber(policy[1] or 0), tonumber(policy[2] or 0))
    if mark ~= '' then
      remember_marks({group, mark}, mark_us, mark_cap)
    end
    pcall('HINCRBY', stats, ending == 'dead' and 'dead' or 'skipped', 1)
  elseif record ~= '' then
    call('HSET', body, id, rewritten(record, '0', ledger))
  end
end
call('HDEL', failures, group)
call('HDEL', leases, group) -- it ran out; its holder may wake, and note

if call('EXISTS', order) == 0 then
  call('ZREM', schedule, group)
  retire(group, mark_us, mark_cap)
elseif visible ~= 9e15 then -- a paused group stays so
  call('ZADD', schedule, fmt('%.0f', now), group)
  if call('LLEN', dispatch) == 0 then
    call('RPUSH', dispatch, group)
  end
end
return {'resumed', skip and score or '', skip and record or ''}
