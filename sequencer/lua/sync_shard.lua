-- sync_shard: copies what is registered of a queue to a shard, where that is newer: of a higher
-- generation_number, or of the same and a higher version.
-- ARGV[1] words   JSON {generation, generation_number, version, table, fields = name -> value,
--                 packed ("" for a queue that is being deleted), rules = names of fields by which
--                 groups are put off, keeps = whether the shard keeps its own table if that is
--                 another, pending = what "put" left in the shard's field of that name}
-- ARGV[2] step    "put"; "confirm" or "remove" what was put into a shard without a policy: the
--                 caller reads the registry again in between; "woken MARK": groups that a rule
--                 had deferred were looked at again
-- RETURN  [status, [field, value, ...] of the shard's policy by now]: "same", "taken", "pending"
--         (without a policy: confirm it, or remove it), "newer" (the shard's is), "other" (so is
--         its table, which it keeps), or "none"
local words = cjson.decode(ARGV[1])
local step = ARGV[2]
--+ keys
call('HDEL', policy_key, '') -- changes nothing; a first write that is allowed at maxmemory
if sub(step, 1, 5) == 'woken' then
  if call('HGET', policy_key, 'again') == sub(step, 7) then
    call('HDEL', policy_key, 'again')
  end
  return {'none', {}}
end
--+ shard_clock
local generation, wanted = words.generation, words.generation_number
local there = call('HMGET', policy_key, 'generation', 'version', 'pending', 'table')
local number = tonumber((there[1] or ''):match('%.(%d+)$'))
local version, mine = tonumber(there[2] or 0), generation .. ' ' .. fmt('%.0f', words.version)
local is_newer = number and (wanted > number or wanted == number and words.version > version)
local has_other_table = number and sub(there[1], 1, 1) ~= '-' and there[4]
  and there[4] ~= words.table
local status = 'none'

if step == 'remove' then
  if there[3] == words.pending then call('HDEL', policy_key, 'pending') end
elseif number and not is_newer then
  status = wanted == number and words.version == version and 'same' or 'newer'
  if status == 'same' and words.packed ~= '' then
    call('HSET', policy_key, 'packed', words.packed) -- others may have changed it
  end
elseif words.keeps and has_other_table then
  status = 'other'
elseif not number and step == 'put' then
  -- With the time: another's, put since then, is not confirmed in its place.
  call('HSET', policy_key, 'pending', mine .. ' ' .. now_text)
  status = 'pending'
elseif number or there[3] == words.pending then
  for _, name in ipairs(words.packed ~= '' and words.rules or {}) do
    local old = call('HGET', policy_key, name)
    if old and words.fields[name] and old ~= words.fields[name] then
      call('HSET', policy_key, 'again', mine) -- groups that this rule deferred wait
    end
  end
  for name, value in pairs(words.fields) do
    call('HSET', policy_key, name, value)
  end
  local text = fmt('%.0f', words.version)
  call('HSET', policy_key, 'generation', generation, 'version', text, 'table', words.table)
  call('HDEL', policy_key, 'pending', 'packed')
  if words.packed ~= '' then
    call('HSET', policy_key, 'packed', words.packed)
    local clock = read_clock(call('GET', clock_key) or '0')
    if clock then call('SET', clock_key, fmt('%.0f', math.max(clock, now))) end
  end
  status = 'taken'
end
return {status, call('HGETALL', policy_key)}
