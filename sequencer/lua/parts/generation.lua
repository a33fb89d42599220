-- generation: refuses a call that knows another table of shards, or another protocol, than this
-- shard has, before the first write and the first answer: "GENERATION" and what the shard has. The
-- generation comes after all other arguments; the net puts it there (net/scripts.py). "" asks for
-- nothing. A script takes part by the line of this part after its prelude, where it knows `prefix`.
local generation = ARGV[#ARGV]
if generation ~= '' then
  local there = call('HGET', prefix .. 'policy', 'generation')
  if there ~= generation then
    return redis.error_reply('GENERATION ' .. (there or 'none'))
  end
end
