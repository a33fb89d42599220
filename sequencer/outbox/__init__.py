"""Append in the transaction of a database: an outbox, its relay, and an inbox.

Not here: drivers of databases, which are the user's.
`outbox` and `inbox` are what callers use in their transactions; `relay` decides what is sent; `sql` has every
statement, and `drivers` knows how a connection executes one.
The rule: nothing here commits, but the relay its own transactions.
"""

from .inbox import Inbox
from .outbox import Outbox
from .relay import Relay

__all__ = ["Inbox", "Outbox", "Relay"]
