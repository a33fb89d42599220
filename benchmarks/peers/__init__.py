"""Scenario `peers`: sequencer beside other systems on Redis, in one run, on one machine, with the same messages.

Six columns: append one by one, append in batches, and consume with one process a backlog of 1 group, 100 groups, 5,000
groups, and 5,000 by Zipf's law. Bodies of 200 bytes; the handler only notes the group, the id and the time. Each cell
has one process that appends everything and then one that handles everything, on a server that was emptied before:

    append    from `go` to the last acknowledged append; what was appended is then consumed, to be judged
    consume   all is there before; from the start of the first handler to the end of the last, so that no system pays
              for what it does once when it starts

Systems take turns within each round. Every system runs at the best of the settings in `systems.py`: each is tried
twice, with fewer messages, and that of the quickest valid run is taken, column by column. Server and clients have
processors of their own; appending one by one, where the placement matters most, is measured apart and together, and the
better of the two counts for each system. Every ratio is of two runs of the same round.

A run in which messages were lost, repeated or invented counts for nothing; so does one with disorder within a group,
unless the system promises no order: then disorder is counted, and the figure stands. Such systems have one figure for
consuming. All talk to the server over TCP on loopback; it writes no append-only file. A whole run takes about fifty
minutes.

Not here: scenarios of sequencer alone (`scenarios`).
The rule: each system runs as its own documentation says, at the settings that are quickest for it.
"""
