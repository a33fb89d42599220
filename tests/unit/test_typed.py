"""Typed bodies: what a function names, what becomes of a body, and objects that are appended."""

from __future__ import annotations

import functools
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, TypedDict

import msgspec
import pydantic
import pytest

from sequencer import Message, Sequencer, StepCall
from sequencer.consume.typed import converter_of, typed
from sequencer.errors import BodyInvalid, ConfigurationError, InvalidBody
from sequencer.testing import MemoryQueue


class Struct(msgspec.Struct, rename="camel"):
    user_id: int
    at: datetime | None = None
    parts: list[float] = []


@dataclass
class Data:
    userId: int  # noqa: N815
    at: datetime | None = None


class Typed(TypedDict):
    userId: int


class Model(pydantic.BaseModel):
    user_id: int = pydantic.Field(alias="userId")
    at: datetime | None = None


class Plain:
    pass


def of_struct(message: Message[Struct]) -> Any:
    return message.body


def of_data(message: Message[Data]) -> Any:
    return message.body


def of_typed(message: Message[Typed]) -> Any:
    return message.body


def of_model(message: Message[Model]) -> Any:
    return message.body


def of_models(message: Message[list[Model] | None]) -> Any:
    return message.body


MESSAGE: Message = Message("m", ("g",), 1.0, {"userId": 7}, {}, 1, 5, 0.0, "q", 9)
MOMENT = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("function", "made"),
    [(of_struct, Struct(7)), (of_data, Data(7)), (of_typed, {"userId": 7}), (of_model, Model(userId=7))],
)
def test_a_body_is_made_what_the_annotation_names(function: Callable[[Message], Any], made: Any) -> None:
    assert typed(function)(MESSAGE) == made
    assert MESSAGE.body == {"userId": 7}, "the message itself stays as it is stored"


@pytest.mark.parametrize(
    ("function", "body", "problem", "path"),
    [
        (of_struct, {"userId": "7"}, "Expected int, got str", "$.userId"),
        (of_struct, {"userId": 7, "parts": [1, "x"]}, "Expected float, got str", "$.parts[1]"),
        (of_struct, [], "Expected object, got array", "$"),
        (of_data, {}, "Object missing required field userId", "$"),
        (of_typed, {"userId": None}, "Expected int, got null", "$.userId"),
        (of_model, {"userId": "x"}, "Input should be a valid integer", "$.userId"),
        (of_models, [{"userId": 7}, {}], "Field required", "$[1].userId"),
    ],
)
def test_a_body_that_does_not_fit_says_where(function: Any, body: Any, problem: str, path: str) -> None:
    with pytest.raises(BodyInvalid) as caught:
        typed(function)(MESSAGE._replace(body=body))
    fields = caught.value.fields
    assert (caught.value.code, fields["path"]) == ("body_invalid", path)
    assert fields["problem"].startswith(problem) or problem in fields["problem"]
    assert str(caught.value).endswith(f" - at {path}")


def nothing(message) -> Any:  # type: ignore[no-untyped-def]
    return message


def bare(message: Message) -> Any:
    return message


def anything(message: Message[Any]) -> Any:
    return message


def for_type_checkers(message: Elsewhere, step: Missing[int]) -> Any:  # type: ignore[name-defined] # noqa: F821
    return message


def with_default(body: Any = None) -> Any:
    return body


@pytest.mark.parametrize(
    "function", [nothing, bare, anything, for_type_checkers, with_default, print, lambda m: m, dict]
)
def test_without_a_type_nothing_is_wrapped(function: Any) -> None:
    assert typed(function) is function


class Called:
    def __call__(self, message: Message[Struct]) -> Any:
        return message.body

    def method(self, message: Annotated[Message[Struct], "as FastAPI has it"]) -> Any:
        return message.body


@functools.wraps(of_struct)
def decorated(*given: Any) -> Any:
    return of_struct(*given)


@pytest.mark.parametrize("function", [Called(), Called().method, functools.partial(of_struct), decorated])
def test_callables_of_all_kinds_name_types(function: Any) -> None:
    assert typed(function)(MESSAGE) == Struct(7)


def test_messages_in_a_sequence_name_their_type() -> None:
    def many(messages: Sequence[Message[Struct]]) -> None: ...

    convert = converter_of(many)
    assert convert
    assert convert({"userId": 7}) == Struct(7)


def unknown(message: Message[Nobody]) -> None:  # type: ignore[name-defined] # noqa: F821
    pass


def unfit(message: Message[Plain]) -> None:
    pass


def ambiguous(message: Message[Struct | Data]) -> None:
    pass


@pytest.mark.parametrize("function", [unknown, unfit, ambiguous])
def test_a_type_that_no_body_can_be_is_refused_at_registration(function: Any) -> None:
    seq = Sequencer("jobs", "redis://localhost")
    with pytest.raises(ConfigurationError):
        seq.handler(function)
    with pytest.raises(ConfigurationError):
        seq.step(function)
    assert seq.registered_handler is None


def test_a_body_that_does_not_fit_is_parked_at_once() -> None:
    queue, seen = MemoryQueue("jobs"), list[Any]()

    @queue.handler
    def handle(message: Message[Struct]) -> None:
        seen.append(message.body)

    queue.append({"userId": 7}, group="a")
    queue.append({"userId": "7"}, group="b")
    done = queue.drain()
    assert seen == [Struct(7)]
    assert [message.body for message in done.handled] == [{"userId": 7}]
    ((message, error),) = done.failed
    assert (message.attempt, type(error)) == (1, BodyInvalid)
    (parked,) = done.parked
    assert parked.failure
    assert (parked.failure.type, parked.failure.attempt) == ("BodyInvalid", 0)
    assert parked.failure.message == "the body is no Struct: Expected int, got str - at $.userId"


@pytest.mark.parametrize("once", [False, True])
def test_a_step_whose_body_does_not_fit_ends_its_message(once: bool) -> None:
    queue = MemoryQueue("jobs", on_failure="dead_letter")
    runs: list[str] = []

    @queue.step(order=1)
    def first(message: Message) -> None:
        runs.append("first")

    @queue.step(order=2, once=once)
    def second(message: Message[Struct], step: StepCall) -> None:
        runs.append(f"second {message.body.user_id}")

    queue.append({"userId": "7"}, group="a")
    queue.append({"userId": 8}, group="a")
    done = queue.drain()
    assert runs == ["first", "first", "second 8"]
    assert [letter.error.type for letter in done.dead] == ["BodyInvalid"], "and no operator is asked whether it ran"
    assert len(done.failed) == 1, "it is not retried"


def test_a_handler_with_steps_is_typed_too() -> None:
    queue, seen = MemoryQueue("jobs"), list[Any]()

    @queue.handler
    def handle(message: Message[Struct], steps: Any) -> None:
        seen.append(steps.run("charge", lambda: message.body.user_id))

    queue.append({"userId": 7}, group="a")
    queue.append({}, group="b")
    done = queue.drain()
    assert (seen, [group.failure.type for group in done.parked if group.failure]) == ([7], ["BodyInvalid"])
    assert len(done.failed) == 1, "it is not retried"


# -- objects that are appended ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body", [Struct(7, MOMENT), Data(7, MOMENT), Model(userId=7, at=MOMENT), {"userId": 7, "at": MOMENT}]
)
def test_objects_are_appended_with_the_fields_of_their_json(body: Any) -> None:
    queue = MemoryQueue("jobs", group_by=("userId",), id_by="userId", score_by="at")
    assert queue.append(body).id == "7"
    assert queue.append_many([body]).duplicates == 1
    (message,) = queue.peek(7)
    assert (message.group, message.score) == (("7",), MOMENT.timestamp())
    assert message.body["userId"] == 7
    assert datetime.fromisoformat(message.body["at"]) == MOMENT


def test_objects_stand_anywhere_in_a_body() -> None:
    queue = MemoryQueue("jobs")
    queue.append({"all": [Struct(1), Model(userId=2), 5]}, group="g")
    (message,) = queue.peek("g")
    assert [one if isinstance(one, int) else one["userId"] for one in message.body["all"]] == [1, 2, 5]


@pytest.mark.parametrize("body", [Struct(1, parts=[math.nan]), [Struct(1, parts=[math.inf])], Plain()])
def test_objects_that_json_cannot_hold_are_refused(body: Any) -> None:
    with pytest.raises(InvalidBody):
        MemoryQueue("jobs").append(body, group="g")


@pytest.mark.slow
def test_libraries_are_imported_for_who_names_them_alone() -> None:
    code = """
import sys
from sequencer import Message, Sequencer
seq = Sequencer("jobs", "redis://localhost")
@seq.handler
def handle(message: Message): ...
print(sorted({"msgspec", "pydantic"} & set(sys.modules)))
@seq.handler
def handle(message: Message[dict[str, int]]): ...
print(sorted({"msgspec", "pydantic"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n['msgspec']\n"
