"""How a queue and its consumers are set: options, policy, delays, and the list of events.

Not here: where a policy is kept (`queue.registry`).
The rule: a setting is checked where it is made.
"""
