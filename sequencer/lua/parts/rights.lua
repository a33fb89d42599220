-- rights: refuses a call whose user lacks a right, before anything is written: the server would
-- notice in the middle. Asks for each command that may be called behind it, up to where it stands
-- again, in one expression, as a loop takes twice as long. Stands first in a script that does not
-- name it. One that does only reads before, where the server itself refuses, or has undone all.
local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]
if may then lacks = QUESTIONS end
if lacks then
  return redis.error_reply('NOPERM the user has no permissions to run the ' .. lacks
    .. ' command; nothing was written')
end
