"""A proxy between clients and the server that loses, delays and cuts what passes.

Not here: what a client makes of it.
The rule: nothing is decoded but what a proxy must know.
"""
