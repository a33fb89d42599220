"""Scenario `async`: many handlers in one process, and appends from an event loop.

Six parts, each of cases whose systems take turns within a round; every ratio is of two runs of the same round:

    loop      500 groups, coroutines that await 50 ms, 500 at once: beside the same tasks without a queue, and peers
    threads   functions that sleep 20 ms, in 32 threads: beside the same threads without a queue
    noop      coroutines that do nothing, 100 at once: beside the single slot, with long groups and one message each
    append    from 100 tasks: beside the blocking client one by one, and the pool of redis.asyncio
    delay     from the begin of an append to the begin of its handler, 200 a second: slots beside the single slot
    single    the single slot: beside that of another tree (`--before`)

    rate      messages a second, from the begin of the first handler to the end of the last; of appends, from the first
              to the last acknowledged. The beginning and the end, where few handlers run, are part of it
    client    processor time of the one process for each message, from `go` on
    scripts   calls of scripts for each message, as the server counts them
    at once   the most handlers that ran at the same time: a peer that does not reach the number is not comparable

A run in which messages were lost or handled twice counts for nothing, nor does one of sequencer out of order. Server
and clients have processors of their own, as in `peers`, whose worker processes and installations these are.

Not here: backlogs of handlers that do nothing beside peers (`peers`), handlers that take milliseconds (`usual`).
The rule: a figure is a ratio of two runs of one round.
"""
