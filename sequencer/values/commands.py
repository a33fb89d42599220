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


def move_all(queue: str, to: str, namespace: str) -> str:
    """What brings all messages of a queue into another: where it breaks off, the same line goes on, and loses nothing.

    Each message is acknowledged once the file has it, and the ids keep what is appended again from being there twice.
    """
    file = f"moved-from-{queue}.ndjson"
    options = ["--until-empty", "-n", "1", "--exec", f"cat >> {file}"]
    taken = command("consume", queue, namespace=namespace, options=options)
    return f"{taken} && {command('append', to, file, namespace=namespace)}"


def resume_all(queue: str, namespace: str) -> str:
    """What lets all parked groups of a queue go on."""
    return command("resume", queue, namespace=namespace, options=["--all"])
