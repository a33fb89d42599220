"""What users hold and pass: messages, receipts, views, and checks of single values. The names that a user may meet are
here; those that most programs need are in `sequencer`, too.

Not here: what lies in Redis (`store`), how a queue is set (`settings`).
In it too: the names of consumers (`owner`), and the version.
The rule: values hold data and decide nothing; `owner` says what is held for too long.
"""

from .alerts import Incident
from .batch import Batch
from .history import HistoryInfo, MessageInfo, MessageSteps, Skipped, StepInfo, Swept
from .message import BatchReceipt, ConsumeSummary, Failure, Message, PastAttempt, Receipt, Refused, StepCall
from .owner import NoConsumers
from .views import (
    ConsumerInfo,
    Consumers,
    DeadLetter,
    Gap,
    GroupInfo,
    ManySummary,
    OutageInfo,
    Page,
    QueueInfo,
    QueueSnapshot,
    Redriven,
    Usage,
)

__all__ = [
    "Batch",
    "BatchReceipt",
    "ConsumeSummary",
    "ConsumerInfo",
    "Consumers",
    "DeadLetter",
    "Failure",
    "Gap",
    "GroupInfo",
    "HistoryInfo",
    "Incident",
    "ManySummary",
    "Message",
    "MessageInfo",
    "MessageSteps",
    "NoConsumers",
    "OutageInfo",
    "Page",
    "PastAttempt",
    "QueueInfo",
    "QueueSnapshot",
    "Receipt",
    "Redriven",
    "Refused",
    "Skipped",
    "StepCall",
    "StepInfo",
    "Swept",
    "Usage",
]
