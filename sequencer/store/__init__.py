"""What lies in Redis: keys, groups, envelopes, records, failures and watermarks as bytes.
Pure, but that ids are made of chance.

Not here: scripts and their calls (`calls`).
The rule: no other Python file builds a key or reads a record. The scripts write the records.
"""
