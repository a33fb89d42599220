"""Ordered, per-group message processing on Redis or Valkey: the public names. Errors are in `sequencer.errors`, and all
that methods return in `sequencer.values`; the rooms of the code are described in `README.md` beside this file.
"""

from .values.version import VERSION as __version__

# isort: split
from .async_client import AsyncSequencer
from .client import Sequencer, list_queues
from .consume.current import current_message
from .drain.steps.inline import InlineSteps
from .errors import Outage, Park, Retry, SequencerError, SetAside, StopConsuming
from .lease import AsyncLease, Lease
from .server import EmbeddedServer
from .settings.body_fields import BodyFields
from .settings.options import ClaimLimits, QueueOptions, QueueSettings
from .settings.policy import Policy
from .texts.events import Event
from .texts.explanations import Explanation
from .texts.findings import Finding as Finding
from .values.batch import Batch
from .values.history import MessageInfo
from .values.message import BatchReceipt, ConsumeSummary, Failure, Message, Receipt, Refused, StepCall
from .values.views import DeadLetter, GroupInfo, QueueInfo

__all__ = [
    "AsyncLease",
    "AsyncSequencer",
    "Batch",
    "BatchReceipt",
    "BodyFields",
    "ClaimLimits",
    "ConsumeSummary",
    "DeadLetter",
    "EmbeddedServer",
    "Event",
    "Explanation",
    "Failure",
    "GroupInfo",
    "InlineSteps",
    "Lease",
    "Message",
    "MessageInfo",
    "Outage",
    "Park",
    "Policy",
    "QueueInfo",
    "QueueOptions",
    "QueueSettings",
    "Receipt",
    "Refused",
    "Retry",
    "Sequencer",
    "SequencerError",
    "SetAside",
    "StepCall",
    "StopConsuming",
    "__version__",
    "current_message",
    "list_queues",
]
