"""What lies in Redis: keys, groups, envelopes, records, failures and watermarks as bytes. Pure.

Not here: scripts and their calls (`calls`).
The rule: every key and every record is built and read in this room only.
"""
