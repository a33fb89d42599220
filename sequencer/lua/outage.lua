-- outage: ends the outage that holds a shard back, or lets it be probed now.
-- ARGV[1] action   "close": what was given to a probe ran to its end; "probe": the next claim is
--                  one
-- ARGV[2] token    of the probe, which to "close" is any of this outage, as one may take longer
--                  than its lease; "" for a person who asks for a probe
-- RETURN  [status, now_us, us since when, how many probes failed, last failure]: "closed",
--         "probing", "none" where nothing holds the shard back, "other" for a token of no probe; of
--         those two nothing was changed
local action, token = ARGV[1], ARGV[2]
--+ keys
--+ generation
--+ hint
call('HDEL', policy_key, '') -- changes nothing; a first write that is allowed at maxmemory
call('LLEN', dispatch)
local kept = call('HMGET', outage, 'since_us', 'probes', 'failure', 'opened_us', 'token')
local said = {now_text, kept[1] or '', kept[2] or '0', kept[3] or ''}
if not call('HGET', policy_key, 'probe_us') then return {'none', unpack(said)} end
if action == 'close' then
  if tonumber(token) < tonumber(kept[4] or 0) then return {'other', unpack(said)} end
  call('HDEL', policy_key, 'probe_us')
  call('HDEL', outage, 'since_us', 'opened_us', 'probes', 'failure', 'token', 'failures', 'handled',
    'groups', 'from_us') -- no DEL: the role operate lacks that right
else
  if token ~= '' and token ~= kept[5] then return {'other', unpack(said)} end
  call('HSET', policy_key, 'probe_us', now_text)
  call('HDEL', outage, 'token')
  call('HSET', outage, 'from_us', now_text)
end
hint('') -- a consumer looks at once
return {action == 'close' and 'closed' or 'probing', unpack(said)}
