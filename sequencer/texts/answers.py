"""What commands print beside their tables: what they did, what they left, and what to run next. Pure."""

from __future__ import annotations

from typing import Any

from .explanations import CONSUME, no_consumers
from .templates import Fields, Wording, fill
from .words import numbers

_ANSWERED = (
    "{is_dead:?{sequencer dead redrive QUEUE GROUP --id ID --done STEPS --attempt ATTEMPTS}}"
    "{is_dead:!{sequencer resume QUEUE GROUP --id ID --done STEPS --attempt ATTEMPTS}}"
)


def _connections(found: Fields) -> str:
    is_known = found["connections"] is not None
    unknown = "connections are unknown (no right to CLIENT LIST, or a node is away)"
    return "{connections:open connection}" if is_known else unknown


_TARGET = "{group:?group {group}}{group:!queue {queue}}"
_OUTAGE = "outage since {since:moment}{of:? in {shards} of {of:shard}}: {error}; next probe in {next_probe_s:.1f} s"
ANSWERS: dict[str, Wording] = {
    # one group
    "resumed": "group {group} goes on",
    "already_due": "group {group} was due already; nothing to do",
    "resumed_but_paused": "the head has fresh attempts, but {text}",
    "probing": "queue {queue} attempts its next message at once",
    "no_outage": "queue {queue} is not held back by an outage; nothing to do",
    "numbers_skipped": lambda gap: f"skipped {numbers(gap['first'], gap['last'])} in group {{group}}, which goes on",
    "skipped": "{dead_letter:?dead-lettered}{dead_letter:!removed} {id} from group {group}, which {is_paused:?is "
    "paused (unpause: {sequencer unpause QUEUE GROUP})}{is_paused:!goes on}; to put it back ({dead_letter:!until the "
    "next skip, }after what is handled meanwhile): {dead_letter:?{sequencer dead redrive QUEUE GROUP --id ID}}"
    "{dead_letter:!{sequencer unskip QUEUE GROUP --id ID}}",
    "paused": f"{_TARGET} is paused{{changed:! already}}",
    "unpaused": f"{_TARGET} is {{changed:?no longer}}{{changed:!not}} paused",
    "step_question": "did {steps:list} take effect? If it did: " + _ANSWERED,
    "step_question_again": "        if it did not: " + _ANSWERED.replace("--done", "--again"),
    # lists
    "cut": "showing {count:,}; for the next ones: --after {place}",
    "consumers": lambda found: "{working:!no consumer has a group in progress; }" + _connections(found),
    # many groups or dead letters
    "many_done": "{is_dry_run:?{chosen:group} would be {action}}{is_dry_run:!{action} {done:,} of {chosen:group}}"
    "{heads:?, their heads {heads}}",
    "none_fits": "no parked group matches, out of {others:,}; inspect: {sequencer parked QUEUE}",
    "many_changed": "left alone {count:group} that changed meanwhile; inspect: {sequencer parked QUEUE}; then run this "
    "command again",
    "many_waiting": "left alone {count:parked group} waiting for a missing number: append it, or skip it; inspect: "
    "{sequencer parked QUEUE}",
    "many_asked": "left alone {count:parked group} waiting for an operator to confirm the outcome of a step; inspect: "
    "{sequencer parked QUEUE}; answer for all at once: {sequencer resume QUEUE --error StepUnknown --done STEP}, or "
    "--again STEP",
    "put_back": "put back all dead letters {error:?of this error: {sequencer dead redrive QUEUE --error ERROR}}"
    "{error:!of the queue, not only these: {sequencer dead redrive QUEUE --all}}",
    "letters_pending": "left alone {count:dead letter}: a message with the same id is pending again; list them with "
    "--json, delete them with `dead purge`",
    "letters_handled": "left alone {count:dead letter}: a message with the same id was handled within dedup_window; "
    "append it with --replace, or delete it with `dead purge`",
    "letters_changed": "left alone {count:dead letter}: died again meanwhile; run this command again",
    "letters_asked": "left alone {count:dead letter}: a step waits for an answer; inspect it with `steps`, then add "
    "--done STEP or --again STEP",
    "still_parked": "group {group} is parked; resume: {sequencer resume QUEUE GROUP}",
    "letters_unfit": "no match among {count:dead letter}; inspect: {sequencer dead list QUEUE --by-error}",
    "resume_all": "resume all: {sequencer resume QUEUE --all}",
    "resume_error": "resume all of {error}: {sequencer resume QUEUE --error ERROR}",
    "interrupted": "interrupted {action} {total:?at {done:,} of {total:,}}{total:!before the first}{is_repeatable:?; "
    "the last request may still take effect; run the command again to continue}",
    # questions
    "keys": "arrows, enter, backspace; r resume; q quit",
    "discard": "Discard the failed heads of {count:group} of queue {queue} for good?",
    "purge": "Delete {count:dead letter} of queue {queue} for good?",
    "delete": "Delete queue {queue}, with {messages:message} and {dead:dead letter}, for good?",
    # append
    "appended": "appended {appended:,}, duplicates {duplicates:,}, refused {bad:,}{dropped:?, dropped {dropped:,}}"
    "{dead:?, dead letters {dead:,}} in {seconds:.2f} s ({rate:,.0f}/s)",
    "broken_off": "{why}; {last:?lines up to {last:,} are stored{refused:?, except refused ones}}{last:!nothing is "
    "stored yet}{perhaps:?, and perhaps some of the next {perhaps:line}, of which those without an id are then "
    "stored twice}; to append the rest, repeat this command on the same input with --from-line {next}",
    "late_lines": "warning: {count:late message} {is_dead:?made dead letters}{is_dead:!dropped} (on_late): a higher "
    "score of that group was already handled; if scores are times in different units, see: {sequencer doctor QUEUE}",
    "lines_refused": "error: {count:line} refused (see above); the others are stored",
    # a queue
    "used": "{is_trial:?would delete }queue {queue}: {messages:message} of {groups:group}, {dead:dead letter}; "
    "{leases:group} leased{owners:? by {owners:list}}; consumers connected: {connected:?{connected}}"
    "{connected:!unknown}",
    "no_history": "queue {queue} keeps no history; to keep it for 3 days: {sequencer configure QUEUE --history-window "
    "3d}",
    "history": "{queue}: history {reaches_s:duration} of {window_s:duration}, {messages:message}",
    "outage": f"{{queue}}: {_OUTAGE}; probe: {{sequencer resume QUEUE --outage}}",
    "outage_seen": _OUTAGE,
    "unreachable": "{queue}: shards {shards:list} can't be reached and are left out: {error}",
    "unreachable_seen": "Shards {shards:list} can't be reached and are left out: {error}",
    "no_consumers": lambda fields: f"{{queue}}: {no_consumers(fields)}; consume: {{{CONSUME}}}",
    "no_consumers_seen": no_consumers,
    "web_plain_http": "warning: the token and all pages go over plain http to {host}; put a proxy with https before it",
    "parked_by_error": "inspect the parked groups, and resume them: {sequencer parked QUEUE --by-error}",
}


def answer_text(code: str, /, **fields: Any) -> str:
    """A line of what a command prints, with `queue` and `namespace` among its fields."""
    return fill(ANSWERS[code], fields)
