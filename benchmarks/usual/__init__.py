"""Scenario `usual`: what most users have, beside what a team writes itself or installs instead.

Most users have messages that come one by one, each of another group, and handlers that take milliseconds. The other
scenarios drain backlogs with handlers that do nothing. Here sequencer runs beside four others, in turns on one server:

    streams   a team's own queue on Redis Streams: 16 partitions by group, one consumer a partition (`streams.py`)
    seed      hash, sorted set, SETNX guard, dispatch list and lock with an expiry, written with care (`seed.py`)
    celery    Celery 5 on Redis, acks_late (installed by itself, as in `peers`)
    rq        RQ 2 (the same)

`rates` has the cases and how each is judged; `promises` attempts what each system keeps, cell by cell, with real
processes
that are killed. `player` is the worker's end of both.

Not here: scenarios of sequencer alone (`scenarios`), rates at the best settings of each system (`peers`).
The rule: a peer's code is short, complete and without tricks, in a file of its own, so that a reader can judge it.
"""
