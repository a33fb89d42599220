"""Commands that let groups go on or hold them back: resume, skip, pause, unpause."""

from __future__ import annotations

import typer

from ..client import Sequencer
from ..values.text import named, plain
from ..values.views import Gap
from .app import GroupArgument, JsonOption, OptionalGroupArgument, app, queue_command
from .render import print_either, print_json


@queue_command(app)
def resume(client: Sequencer, group: GroupArgument, json: JsonOption = False) -> None:
    """Let a parked or waiting group go on now, its head with fresh attempts."""
    is_resumed = client.resume(group)
    found = client.explain(group)
    is_paused = found.reason in ("paused", "queue paused")
    if json:
        print_json({"group": group, "resumed": is_resumed, "paused": is_paused})
    elif is_resumed and is_paused:
        typer.echo(f"its head has fresh attempts, but {plain(found.text)}")
    else:
        typer.echo(f"group {named(group)} {'goes on' if is_resumed else 'was due already; nothing to do'}")


@queue_command(app)
def skip(client: Sequencer, group: GroupArgument, json: JsonOption = False) -> None:
    """Remove the failed head of a group, and let the group go on. Prints the removed message: it is the only copy.

    In a sequence that waits for a missing number, steps over what is missing instead.
    """
    skipped = client.skip(group)
    if isinstance(skipped, Gap):
        if json:
            print_json(skipped)
        else:
            which = str(skipped.first) if skipped.first == skipped.last else f"{skipped.first} to {skipped.last}"
            typer.echo(f"stepped over {which} in group {named(group)}, which goes on")
        return
    if not json:
        typer.echo(f"removed {plain(skipped.id)} from group {named(group)}, which goes on; it was:", err=True)
    print_json(skipped)


@queue_command(app)
def pause(client: Sequencer, group: OptionalGroupArgument = None, json: JsonOption = False) -> None:
    """Hold back a group, or without PART the whole queue, from the next claim on. Appending goes on.

    What runs is finished. It lasts until `unpause`, also over restarts; a group may be paused before it has messages.
    """
    is_changed = client.pause(group or None)
    _say_paused(client.queue, group, is_changed, "paused" if is_changed else "paused already", json)


@queue_command(app)
def unpause(client: Sequencer, group: OptionalGroupArgument = None, json: JsonOption = False) -> None:
    """Let a paused group, or without PART a paused queue, go on. Groups paused by themselves stay so."""
    is_changed = client.unpause(group or None)
    _say_paused(client.queue, group, is_changed, "not paused any more" if is_changed else "not paused", json)


def _say_paused(queue: str, group: list[str] | None, is_changed: bool, state: str, as_json: bool) -> None:
    name = f"group {named(group)}" if group else f"queue {queue}"
    value = {"queue": queue, "group": group or None, "changed": is_changed}
    print_either(as_json, value, f"{name} is {state}")
