-- generation: refuses a call that knows another generation than this shard has, before the first
-- write and the first answer. It comes behind all other arguments (net/scripts.py); "" is any.
local generation = ARGV[#ARGV]
if generation ~= '' then
  local there = call('HGET', prefix .. 'policy', 'generation')
  if there ~= generation then
    return redis.error_reply('GENERATION ' .. (there or 'none'))
  end
end
