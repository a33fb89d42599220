"""History: what is kept of messages that ended, as bytes. Pure.

Not here: how it is found (`queue/history`), and how it is written (`lua/parts/history`).
The rule: a field is the encoded group, a newline and the id; its value is read and made in `ending`, but for what
scripts say themselves (`lua/parts/history/keep.lua`).
"""
