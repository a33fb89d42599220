-- fresh: how much the newest generation of what is remembered holds, by name; only where it grew a
-- moment ago, and so needs no look whether it is over. check_memory writes it.
local fresh = {}
