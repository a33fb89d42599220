"""How a queue and its consumers are set: options, policy, delays, limits, the numbers that steer a consumer; how
tables of a file are read.

Not here: where a policy is kept (`queue.registry`).
The rule: a setting is checked where it is made.
"""
