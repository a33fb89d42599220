"""A model of one lane in plain Python: the same calls as the scripts, the same bytes."""
