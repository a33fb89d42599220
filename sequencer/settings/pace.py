"""The numbers that steer a consumer: when it sends, claims, checks and releases, on one time line. Pure.

A batch is what one claim took. The caller's thread handles it; the renewer thread looks at it every TICK_S.

    from the beginning of a batch
      0         5 ms       7 ms                          0.1 s
      |---------+----------+------------------------------+---->
      |         FLUSH_S    BATCH_S                        LONGEST_S
      |         done is    it is over, if others          it is over, if nothing
      |         told       are due                        else was due
      the next claim sets out at 0 (handlers under QUICK_S) or LEAD_S before the expected end

    from the beginning of one handler, in the renewer thread
      0     2 ms      4 ms         20 ms                  50 ms                1 s
      |-----+---------+------------+----------------------+--------------------+---->
            |         |            RELEASE_S            AHEAD_S              OVERDUE_S
            |         |            releases what        releases what      waits for an answer
            |         |            was not begun          was claimed ahead    that is late
            |         RENEWER_AFTER_S: sends what has waited this long, once a handler runs for RENEWER_S
            ACK_AFTER_S: sends what was finished before

    while nothing is due
      0         50 ms           0.1 s            5 s              30 s
      |---------+---------------+----------------+----------------+---->
                STOP_CHECK_S    ENDING_S         IDLE_S           SILENT_S
                sees a stop     until_empty      asks again       uses the main link
                                asks again

    of a lease
      0 ------------ 1/3 ------------ 2/3 ------------ 1
                     renewed (RENEW_PART); a wait with a claim behind it is over (WAIT_PART)

What was finished leaves in FLUSH_S or ACK_AFTER_S, plus a tick, plus SWITCH_S for the change of threads: together under
the 10 ms that the README promises.
"""

# -- how much one claim takes ---------------------------------------------------------------------------------------

BATCH_S = 0.007
"""How long a batch should take: for this time its consumer sits on groups that another could take (`fairness`)."""
LONGEST_S = 0.1
"""How long it may take when nothing else is due: after BATCH_S it ends once the answer to an acknowledgement tells of
something. No batch takes longer than this and a handler: what handlers that became slow leave of it is released.
"""
SHORT_LEAST = 3
"""Handlers are short if BATCH_S has room for so many. That answer comes while the next one runs; where they are not, it
is awaited before the next one begins, and not from BATCH_S on only (`fairness`).
"""
TOO_LONG = 1.6
"""A batch that takes this many times as long is followed by one of BATCH_S, where more than its group is due."""

# -- when the next claim sets out -----------------------------------------------------------------------------------

QUICK_S = 0.0005
"""Handlers that take less are quick: the next batch is claimed as soon as this one is (`peers`)."""
ALIKE_S = 0.02  # two batches in a row that differ by less tell when the next one ends (`handlers`)
LEAD_S = 0.006
"""A claim sets out this long before the expected end of its batch: a round trip and a tick (`handlers`)."""
AHEAD_S = 0.05
"""Groups that were claimed ahead are released when the batch before them takes longer than this (`fairness`)."""
AHEAD_BYTES = 56_000
"""Bytes that a claim ahead reads where messages are small. Of an answer above 64 KiB a server keeps what is left until
it has carried out what came meanwhile (NET_MAX_WRITES_PER_EVENT of Redis and Valkey); a shorter one goes at once.
"""
SMALL_BYTES = 400
"""Messages of this size are small. Of larger ones too few fit into a short answer: in turns, 100 groups were drained
1.2 times as fast with bodies of 170 bytes, as fast with 470, and more slowly with more.
"""

# -- when it sends -----------------------------------------------------------------------------------------------

FLUSH_S = 0.005
"""Fast handlers' acknowledgements are sent together at least this often. One that begins just before is left to the
renewer: with RENEWER_S, its tick and a few thread switches they leave within the promised 10 ms.
"""
ACK_AFTER_S = 0.002
"""A handler running this long is slow: the renewer sends what was finished before it, to stay within 10 ms."""
RENEWER_S, RENEWER_AFTER_S = 0.0002, 0.004
"""Beside a handler running for the first, the renewer's thread sends what has waited for the second."""
RELEASE_S = 0.02
"""A handler running this long makes its consumer release the groups it has not begun (`fairness`)."""
ANSWER_S = 0.003
"""Acknowledgements wait no longer for a long answer on its way before them, unless that is about their groups."""
OVERDUE_S = 1.0
"""An answer that takes longer beside a handler is waited for, so that a lost connection is found out."""
RENEW_PART = 3  # a lease is renewed at a third of its time: two renewals may fail before it ends

# -- the renewer's ticks ---------------------------------------------------------------------------------------------

TICK_S = 0.0025
"""How often the renewer checks while a handler runs: with ACK_AFTER_S and thread switches, acks leave in 10 ms."""
SWITCH_S = 0.0005
"""How long a handler that never waits may keep the renewer thread from running; Python's default is 5 ms."""

# -- while nothing is due -------------------------------------------------------------------------------------------

IDLE_S = 5.0
"""An idle consumer claims again after this long, in case a hint was lost: two commands, and one for each further shard.
`lua/parts/hint.lua` knows it too.
"""
ENDING_S = 0.1  # with `until_empty`, how often to check whether the others have finished their groups
STOP_CHECK_S = 0.05
"""How often a waiting consumer checks whether it should stop; local, the server is not asked."""
WAIT_PART = 3
"""A wait with a claim behind it is over after this part of the lease, so that most of that is left."""
SILENT_S = 30.0
"""The main link is used at least this often while a consumer waits: else it is forgotten on its way, unnoticed."""
