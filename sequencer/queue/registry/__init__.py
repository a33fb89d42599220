"""What is registered of a queue: how its clients find it, how it changes, how it ends. Operations over a net.

Not here: what one client knows of its queue (`queue.session`), the records themselves (`store.registration`).
The rule: changes go into the registry first, then into the shards; each is a script that compares before it sets.
"""
