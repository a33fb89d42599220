"""A model of one shard in plain Python: the same calls as the scripts, the same bytes."""
