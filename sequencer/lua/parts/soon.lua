-- soon: us for which an idle consumer waits unless it is hinted. What becomes due sooner needs a
-- hint, so that one that waits already knows of it.
local SOON = 5200000
