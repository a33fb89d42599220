"""Append in the transaction of a database: an outbox, its relay, and an inbox.

Not here: drivers of databases, which are the user's.
`sql` has every statement; `drivers` knows how a connection executes one; `relay` decides what is sent.
The rule: only `relay` and the transaction of the caller change the tables.
"""

from .outbox import Outbox

__all__ = ["Outbox"]
