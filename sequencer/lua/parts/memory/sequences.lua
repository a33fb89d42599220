-- sequences: while a group of a sequence has messages, its watermark is in this hash, which forgets
-- nothing.
local sequences = prefix .. 'sequences'
