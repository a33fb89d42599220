-- rights: refuses a call whose user lacks a right, before anything is written: the server would notice at the command that
-- needs it, in the middle. Stands first in every script. Before Redis 7 there is no such question. Needs: nothing.
if redis.acl_check_cmd then
  for name in ('COMMANDS'):gmatch('%S+') do
    if not redis.acl_check_cmd(name, KEYS[1], KEYS[1]) then -- RENAME has two
      return redis.error_reply('NOPERM the user has no permissions to run the ' .. name .. ' command; nothing was written')
    end
  end
end
