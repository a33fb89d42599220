-- rights: refuses a call whose user lacks a right, before anything is written: the server would notice at the command that
-- needs it, in the middle. Stands first in every script, with each of its commands asked for in one expression, since a
-- loop over their names takes twice as long. Where a script names this part once more, what comes behind it is asked for
-- there: it may have ended before. Before Redis 7 there is no such question. Needs: nothing.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = QUESTIONS end
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks .. ' command; nothing was written')
end
