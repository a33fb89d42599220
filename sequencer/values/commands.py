"""Command lines that a text gives to people, to be run as they stand. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from .text import quoted


def command(name: str, *values: str, namespace: str = "sequencer", options: Sequence[str] = ()) -> str:
    """A line for a shell: `sequencer explain orders 1002 'a b'`."""
    words = [*options, *(["--namespace", namespace] if namespace != "sequencer" else [])]
    is_mistakable = any(value.startswith("-") for value in values)  # for an option
    words = [*words, "--", *values] if is_mistakable else [*values, *words]
    return f"sequencer {name} {' '.join(map(quoted, words))}"


def id_option(id: str) -> list[str]:
    """`--id m1`, in one word where the id would be taken for an option."""
    return [f"--id={id}"] if id.startswith("-") else ["--id", id]


def resume_all(queue: str, namespace: str) -> str:
    """What lets all parked groups of a queue go on."""
    return command("resume", queue, namespace=namespace, options=["--all"])
