"""Ordered, per-group message processing on Redis or Valkey: the public names. Errors are in `sequencer.errors`, and all
that methods return in `sequencer.values`.

Each room knows one thing; a room imports only those below it:

    testing      a queue in memory, and what tests of programs on sequencer need
    processes    consumer processes, their supervisor, what they run
    client.py    Sequencer, the blocking client class; lease.py: Lease
    consume      the threads of one consumer; runs handlers
    server.py    the embedded server
    net          talks to Redis, alone
    queue        the operations on a queue: append, look, operate, dead letters, audit
    doctor       examines a server, its data and rights
    drain        decides what a consumer does next
    calls        one function a script: its arguments, and what its reply means
    store        what lies in Redis: keys, records, texts
    settings     options, policy, delays, the list of events
    values       what users hold: messages, receipts, views
    errors.py    every error
    lua          the scripts
"""

from .values import version  # noqa: F401 - it refuses systems that we do not run on

# isort: split
from .client import Sequencer, list_queues
from .drain.steps.inline import InlineSteps
from .errors import Outage, Park, Retry, SequencerError, SetAside, StopConsuming
from .lease import Lease
from .server import EmbeddedServer
from .settings.body_fields import BodyFields
from .settings.events import Event
from .settings.options import ClaimLimits, QueueOptions, QueueSettings
from .settings.policy import Policy
from .values.history import MessageInfo
from .values.message import BatchReceipt, ConsumeSummary, Failure, Message, Receipt, Refused, StepCall
from .values.version import VERSION as __version__
from .values.views import DeadLetter, Explanation, GroupInfo, QueueInfo

# isort: split
# What is rarely named: it is in `sequencer.values`, and stays here.
from .values.views import AuditReport as AuditReport
from .values.views import Finding as Finding
from .values.views import Gap as Gap
from .values.views import OutageInfo as OutageInfo
from .values.views import Redriven as Redriven

# isort: split
# For one version more: names that have moved to `sequencer.errors`, and AuditReport as it was called.
from .errors import BatchRefused as BatchRefused
from .errors import ConfigurationError as ConfigurationError
from .errors import DataError as DataError
from .errors import GroupBusy as GroupBusy
from .errors import GroupNotFound as GroupNotFound
from .errors import HandlerNotFound as HandlerNotFound
from .errors import IdConflict as IdConflict
from .errors import InvalidBody as InvalidBody
from .errors import InvalidGroup as InvalidGroup
from .errors import InvalidId as InvalidId
from .errors import InvalidMessage as InvalidMessage
from .errors import InvalidScore as InvalidScore
from .errors import InvalidTime as InvalidTime
from .errors import LateMessage as LateMessage
from .errors import LeaseLost as LeaseLost
from .errors import MessageBusy as MessageBusy
from .errors import MessageNotFound as MessageNotFound
from .errors import NotParked as NotParked
from .errors import NotReplicated as NotReplicated
from .errors import NumberTaken as NumberTaken
from .errors import OutcomeUnknown as OutcomeUnknown
from .errors import QueueFull as QueueFull
from .errors import ServerError as ServerError
from .errors import ServerNotUsable as ServerNotUsable
from .errors import ServerUnavailable as ServerUnavailable

Proof = AuditReport

__all__ = [
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
    "list_queues",
]
