"""Whether a server and the data on it are sound, which rights a user lacks, and the repair.

In it too: what every session asks before its first message (`rights`, `server`), and whom a queue waits for (`leases`).
Not here: why one group waits (`queue.explain`).
The rule: doctor works on a server that a Sequencer would refuse.
"""
