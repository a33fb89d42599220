"""Who takes part in a simulation: producers, consumers, their handler, an operator; and somebody replaces the dead.

All are real: producers and the operator use a `Sequencer`, consumers are `Consumer`s with their renewer beside them.
Only what the handler does, and when somebody acts, comes from the seed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from sequencer.client import Sequencer
from sequencer.consume.apart import ApartConsumer
from sequencer.consume.slots import SlotConsumer
from sequencer.consume.threads import Consumer
from sequencer.errors import OutcomeUnknown, Park, Retry, SequencerError, ServerUnavailable, SetAside
from sequencer.settings.options import ClaimLimits, ConsumerOptions
from sequencer.store.group import encode_group
from sequencer.store.keys import ShardKeys
from sequencer.values.message import BatchReceipt, Message

from ...support.judge.history import Event, run_fields
from .net import Network
from .scenario import NAMESPACE, QUEUE, STRAGGLE_S, Scenario
from .stage import Crashed, Process, Stage
from .step_cast import StepCast

WITH_SLOTS = 1 / 3
"""Of consumers: how many have many worker slots, each a thread."""
RESTART_US = 300_000
"""The longest until a supervisor has replaced a process."""
MAX_ATTEMPTS = 200
STOP_RATE = 0.4
"""Of batches: how many are stored whole or not at all."""
ACTS = ("resume", "skip", "skip", "pause", "pause all", "unpause", "redrive")
"""What an operator does to a queue in the storm."""
STEPS_ACTS = ("resume", "resume", "resume", "skip", "pause", "pause all", "unpause", "redrive", "answer")
CAREFUL = 0.8
"""Of an operator's acts on a group with steps."""
IN_HANDLER = 3.0
"""How much likelier a process is killed or frozen beside its handler, where it holds leases, than elsewhere."""


class Cast:
    """All actors of a seed. `producing` counts the producers that have not finished."""

    def __init__(self, stage: Stage, net: Network, play: Scenario, shards: list[ShardKeys]) -> None:
        self.stage, self.net, self.play, self.shards = stage, net, play, shards
        self.over_us = round(play.storm_s * 1e6)
        self.producing = len(play.batches)
        self.consumers: dict[Process, Consumer | SlotConsumer] = {}
        self.steps = StepCast(self)
        self._positions = [0] * len(play.batches)
        net.on_step = self.on_step

    def start(self) -> None:
        """Everybody comes on the stage."""
        for number in range(self.play.consumers):
            self._start_consumer(number, 0)
        for number in range(len(self.play.batches)):
            self._start_producer(number, 0)

    @property
    def is_storm(self) -> bool:
        return self.stage.now_us < self.over_us

    def note(self, what: str, **fields: Any) -> None:
        """An event of the history, now."""
        event = Event(what, self.stage.now_s, **fields)
        self.net.events.append(event)
        self.net.note(event.who, " ".join([what, *(f"{name}={value}" for name, value in fields.items())]))

    def client(self, process: Process) -> Sequencer:
        """A client of the process's own."""
        return Sequencer(QUEUE, redis=self.net.endpoint(process), namespace=NAMESPACE, **self.play.options)

    # -- faults of processes ----------------------------------------------------------------------------------

    def on_step(self, process: Process, weight: float = 1.0) -> None:
        """A point where a process may be killed or frozen."""
        rng, weather, now_us = self.stage.rng, self.net.weather, self.stage.now_us
        if not self.is_storm or process.name == "operator":
            return
        if rng.random() < weather.crash_rate * weight:
            holds = "with leases" if self._holds(process) else "idle"
            kind = "producer killed" if process.name.startswith("p") else f"consumer killed {holds}"
            self.net.fault(kind, process.name, now_us, now_us)
            self.stage.kill(process)
            raise Crashed
        if rng.random() < weather.pause_rate * weight:
            us = min(rng.randrange(weather.lease_us // 4, 3 * weather.lease_us), self.over_us - now_us)
            is_past = us > weather.lease_us and self._holds(process)
            process.frozen_until_us = now_us + us
            self.net.fault("paused past the lease" if is_past else "paused", process.name, now_us, now_us + us)
            self.stage.sleep(0)

    def _holds(self, process: Process) -> bool:
        consumer = self.consumers.get(process)
        if isinstance(consumer, SlotConsumer):
            helds = [slot.held for slot in consumer.slots]
        else:
            helds = [consumer._held] if consumer else []
        return any(group.is_open for held in helds for group in held.groups)

    def _replaced(self, process: Process, again: Callable[[], None], run: Callable[[], None]) -> None:
        """Run as an actor of this process; when it was killed, somebody else begins in its place a little later."""

        def watched() -> None:
            try:
                run()
            except Crashed:
                if self.stage.is_open:
                    self.stage.after(self.stage.rng.randrange(RESTART_US), again)
                raise

        self.stage.start(process, watched)

    # -- consumers --------------------------------------------------------------------------------------------

    def _start_consumer(self, number: int, life: int) -> None:
        process, rng = Process(f"c{number}.{life}"), self.stage.rng
        limits = rng.choice((ClaimLimits(), ClaimLimits(1, 1), ClaimLimits(2, 4)))
        concurrency = rng.randrange(2, 6) if rng.random() < WITH_SLOTS else None
        single: Any = ApartConsumer if self.play.are_apart and len(self.shards) > 1 else Consumer
        kind = SlotConsumer if concurrency else single
        options = ConsumerOptions(lease_s=self.play.lease_s, limits=limits, concurrency=concurrency)

        def run() -> None:
            queue = self.client(process).options
            work = self.steps.work(process) if self.play.steps else self._handler(process)
            consumer = kind(self.net.endpoint(process), self.shards, queue, options, work, owner=process.name)
            self.consumers[process] = consumer
            if self.play.steps:  # a deploy: it is to stop between two steps, and another one follows
                self.stage.after(rng.randrange(1, 2 * self.over_us), consumer.stop)
            consumer.run()
            self.net.faults["consumer stopped"] += 1
            self.stage.after(rng.randrange(RESTART_US), again)

        def again() -> None:
            self._start_consumer(number, life + 1)

        self._replaced(process, again, run)

    def _handler(self, process: Process) -> Callable[[Message], None]:
        rng, stage = self.stage.rng, self.stage

        def handle(message: Message) -> None:
            if process.is_dead:
                raise Crashed
            fields, began_us = self.run_fields(process, message), stage.now_us
            self.note("begun", **fields)
            self.net.truth.ledger.begun(encode_group(message.group), message)
            self.on_step(process, IN_HANDLER)
            stage.sleep(self.duration_us())
            self.on_step(process, IN_HANDLER)
            if self.is_storm and rng.random() < self.failure_rate(process, began_us):
                error = rng.choice(
                    (ValueError("no"), Retry(after=0.05), Retry(), Park("by hand"), SetAside("unusable"))
                )
                self.net.faults[f"handler raised {type(error).__name__}"] += 1
                self.note("failed", kind=type(error).__name__, **fields)
                raise error
            self.note("ended", **fields)

        return handle

    def run_fields(self, process: Process, message: Message) -> dict[str, Any]:
        """What an event says of a message that this process handles."""
        if message.body.rstrip("!") != message.id:  # as the scenario made it
            self.stage.fail(AssertionError(f"{message.id} came with the body {message.body!r} of another"))
        return {"who": process.name, **run_fields(message)}

    def failure_rate(self, process: Process, began_us: int) -> float:
        """One that stood still meanwhile mostly fails: that gives failures which are told under an old token."""
        rate = self.play.failure_rate
        return 0.7 if rate and process.frozen_until_us > began_us else rate

    def duration_us(self) -> int:
        rng, lease_us = self.stage.rng, self.net.weather.lease_us
        if not self.is_storm:
            return 1_000
        kind = rng.random()
        if kind < 0.6:
            return rng.randrange(0, 3_000)
        return rng.randrange(3_000, 60_000) if kind < 0.95 else rng.randrange(lease_us // 2, lease_us * 3 // 2)

    # -- producers --------------------------------------------------------------------------------------------

    def _start_producer(self, number: int, life: int) -> None:
        process = Process(f"p{number}.{life}")

        def run() -> None:
            client, batches = self.client(process), self.play.batches[number]
            late = [(item,) for item in self.play.stragglers[number]]
            while (position := self._positions[number]) < len(batches) + len(late):
                if position == len(batches):
                    self.stage.sleep(round(STRAGGLE_S * 1e6))
                self.stage.sleep(self.stage.rng.randrange(300_000) if self.is_storm else 1_000)
                self._append(process, client, [*batches, *late][position])
                self._positions[number] += 1
            self.producing -= 1

        self._replaced(process, lambda: self._start_producer(number, life + 1), run)

    def _append(self, process: Process, client: Sequencer, batch: tuple[dict[str, Any], ...]) -> None:
        """Append until the outcome is known, as the advice of OutcomeUnknown says: again, with the same ids."""
        names = [{"who": process.name, "group": encode_group(item["group"]), "id": item["id"]} for item in batch]
        for name, item in zip(names, batch, strict=True):
            self.note("appending", score=float(item.get("score", 0.0)), **name)
        on_refused: Literal["stop", "skip"] = "stop" if self.stage.rng.random() < STOP_RATE else "skip"
        for _ in range(MAX_ATTEMPTS):
            try:
                if len(batch) == 1:
                    receipt = client.append(**batch[0])
                    self.net.truth.told(names[0]["group"], receipt.id, receipt.outcome, receipt.stamp)
                    kind = str(receipt.outcome)
                else:
                    kind = _kind(client.append_many(batch, on_refused=on_refused))
            except (OutcomeUnknown, ServerUnavailable) as error:
                is_unknown = isinstance(error, OutcomeUnknown)
                self.note("unknown" if is_unknown else "refused", kind=type(error).__name__, **names[0])
                self.stage.sleep(self.stage.rng.randrange(100_000))
            except SequencerError as error:
                self.note("refused", kind=type(error).__name__, **names[0])
                return
            else:
                for name in names:
                    self.note("appended", kind=kind, **name)
                return
        raise AssertionError(f"{process.name} could not append {names} in {MAX_ATTEMPTS} attempts")

    # -- the operator -----------------------------------------------------------------------------------------

    def operate(self) -> None:
        """Now and then somebody pauses, resumes, skips or redrives: an actor."""
        process, rng = Process("operator"), self.stage.rng

        def run() -> None:
            client = self.client(process)
            for _ in range(self.play.operations):
                self.stage.sleep(rng.randrange(round(self.over_us * 1.6 / self.play.operations)))
                if self.is_storm:
                    self._try(client, rng.choice(STEPS_ACTS if self.play.steps else ACTS))

        self.stage.start(process, run)

    def _try(self, client: Sequencer, what: str) -> None:
        rng = self.stage.rng
        try:
            if what in ("resume", "skip"):
                parked = list(client.parked())
                group = rng.choice(parked).group if parked else None
                act = self._acts(client)[what]
                done = act(group) if group else "nothing"
            elif what == "answer":
                done = self.steps.redrive(client)
            elif what == "redrive":
                done = client.redrive(everything=True)
            elif what == "unpause":
                done = [client.unpause(), *[client.unpause(group) for group in client.paused_groups()]]
            else:
                done = client.pause(None if what == "pause all" else ("g", rng.randrange(3)))
        except SequencerError as error:
            done = type(error).__name__
        self.net.note("operator", f"{what}: {done}")

    def _acts(self, client: Sequencer) -> dict[str, Callable[[tuple[str, ...]], object]]:
        """What may be done with a parked group; with steps, as people do who look first, and mostly answer."""
        if not self.play.steps:
            return {"resume": client.resume, "skip": client.skip}
        is_careful = self.stage.rng.random() < CAREFUL
        return {
            "resume": partial(self.steps.resume, client) if is_careful else client.resume,
            "skip": client.skip if is_careful else partial(client.skip, yes=True),
        }

    def redrive(self, client: Sequencer) -> None:
        """What a person may do once all is well again."""
        self._try(client, "redrive")
        if self.play.steps:
            self._try(client, "answer")

    def fix(self, client: Sequencer) -> None:
        """What a person does after the storm: unpause everything, resume what is parked, skip what is missing."""
        self._try(client, "unpause")
        resume = partial(self.steps.resume, client) if self.play.steps else client.resume
        for info in client.parked():
            try:
                resume(info.group) if info.failure else client.skip(info.group)
            except SequencerError as error:
                self.net.note("operator", f"fixing {info.group}: {type(error).__name__}")


def _kind(receipt: BatchReceipt) -> str:
    """What may be said of every message of a batch."""
    return "some" if receipt.refused or receipt.dropped or receipt.dead else "stored"
