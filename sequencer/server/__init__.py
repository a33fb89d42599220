"""Servers that this library starts itself: one (`embedded`), or a cluster of them (`cluster`).

Not here: connections to a server (`net`), and what must hold of any (`doctor`).
The rule: a server outlives the program that started it, until `stop`.
"""

from .embedded import EmbeddedServer, ServerStatus, default_directory, find_binary, start_embedded

__all__ = ["EmbeddedServer", "ServerStatus", "default_directory", "find_binary", "start_embedded"]
