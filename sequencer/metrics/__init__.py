"""Metrics for Prometheus, with the extra `metrics`: `queues` says what a server holds, `supervisor` what the consumers
of one supervisor do, `families` how both are written.

Not here: who serves them (`processes/http.py`, `web`); what is counted (`drain`, `queue/counts.py`).
The rule: labels are `queue`, `namespace` and words of closed lists; never a group, an id or a process.
"""

from .queues import QueueCollector

__all__ = ["QueueCollector"]
