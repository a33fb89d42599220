"""`sequencer demo`: made-up orders, a consumer killed half-way, a verdict."""
