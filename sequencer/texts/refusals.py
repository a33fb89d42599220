"""What errors say, by their code: a template over their fields, or a function of them. Pure.

In a template a group is shown as words for a shell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .commands import command, doctor_of, id_option
from .words import many, named

Fields = Mapping[str, Any]


def refusal_text(code: str, fields: Fields) -> str:
    """The text of an error; "" where nothing is listed for its code and fields."""
    text = REFUSALS.get(code, "")
    try:
        return text(fields) if callable(text) else text.format(**_shown(fields))
    except (KeyError, IndexError):  # raised without the fields: the class says what it is
        return ""


def _shown(fields: Fields) -> dict[str, Any]:
    return {name: named(value) if name == "group" else value for name, value in fields.items()}


def _line(name: str, fields: Fields, *, options: list[str] | None = None, is_whole_queue: bool = False) -> str:
    """A command about the queue and the group of an error."""
    words = [fields["queue"], *(() if is_whole_queue else fields["group"])]
    return command(name, *words, namespace=fields["namespace"], options=options or [])


# -- an append --------------------------------------------------------------------------------------------------


def _late_message(fields: Fields) -> str:
    return (
        f"message {fields['id']!r} of group {named(fields['group'])} is late: a message with a score above "
        f"{fields['score']} was already handled; give it a later score, or set the queue's on_late to handle, "
        f"dead_letter or drop; if producers send times in several units, see: {command('doctor')}"
    )


def _batch_refused(fields: Fields) -> str:
    first, count = fields["refused"][0], len(fields["refused"])
    return (
        f"item {first.index} was refused: {first.error} (refused in its chunk: {count:,}; stored: "
        f"{fields['stored']:,}). Correct it, or pass on_refused='skip' to store the others"
    )


def _again(fields: Fields, otherwise: str, replaced: str) -> str:
    return replaced if fields["replaces"] else otherwise


def _append_unknown(fields: Fields) -> str:
    advice = _again(
        fields, "append it again with the same id, which adds nothing if it was", "see get() before you repeat it"
    )
    return f"message {fields['id']!r} may or may not have been stored ({fields['error']}); {advice}"


def _not_replicated(fields: Fields) -> str:
    advice = _again(
        fields,
        "append it again with the same id, which adds nothing and waits again",
        "see get() before you repeat it: once it was handled, that adds it again",
    )
    wanted = many(fields["replicas"], "replica")
    return (
        f"message {fields['id']!r} is stored, but {fields['confirmed']} of {wanted} confirmed it in "
        f"{fields['wait_ms']} ms; {advice}"
    )


# -- groups that do not move ------------------------------------------------------------------------------------


def _group_busy(fields: Fields) -> str:
    since = f", for {fields['held_s']:.1f} s so far" if fields["held_s"] is not None else ""
    return (
        f"group {named(fields['group'])} is leased by {fields['owner'] or 'a consumer'}{since}; "
        f"inspect: {_line('explain', fields)}"
    )


def _no_failed_head(fields: Fields) -> str:
    text = f"group {named(fields['group'])} has no failed head: it is neither parked nor backing off; "
    text += f"inspect: {_line('explain', fields)}"
    if id := fields["id"]:
        text += f"; to remove {id!r}, which is pending: {_line('cancel', fields, options=id_option(id))}"
    return text


def _skip_unknown(fields: Fields) -> str:
    is_dead, id = fields["is_dead"], fields["id"]
    line = _line("dead redrive" if is_dead else "unskip", fields, options=id_option(id))
    kept = "it is a dead letter" if is_dead else "it is kept until the next skip"
    return (
        f"message {id!r} may or may not have been skipped: the server's reply was lost; check before you repeat it. If "
        f"it was, {kept}; to put it back: {line}"
    )


def _message_busy(fields: Fields) -> str:
    return f"message {fields['id']!r} may be in progress: {_group_busy(fields)}"


def _is_dead_letter(fields: Fields) -> str:
    line = _line("dead redrive", fields, options=id_option(fields["id"]))
    return f"message {fields['id']!r} of group {named(fields['group'])} is a dead letter; redrive it: {line}"


def _contents_not_kept(fields: Fields) -> str:
    line = _line("configure", fields, options=["--history-window", "3d", "--history-bodies"], is_whole_queue=True)
    return (
        f"queue {fields['queue']!r} does not keep the content of ended messages, so message {fields['id']!r} of group "
        f"{named(fields['group'])} can't run again; to keep it from now on: {line}"
    )


def _steps_unresolved(fields: Fields) -> str:
    return (
        f"message {fields['id']!r}: it is unknown whether {', '.join(fields['steps'])} took effect, so its steps can't "
        "be kept; without keep_steps (--keep-steps) all of them run again"
    )


def _more_answers_needed(fields: Fields) -> str:
    line = _line("dead redrive" if fields["is_dead"] else "resume", fields, options=id_option(fields["id"]))
    return f"did {', '.join(fields['steps'])} take effect? Answer for each, by --done or --again: {line}"


def _queue_being_deleted(fields: Fields) -> str:
    line = _line("delete", fields, options=["--yes"], is_whole_queue=True)
    return f"queue {fields['queue']!r} is being deleted; if the deletion was interrupted, finish it: {line}"


def _registration_lost(fields: Fields) -> str:
    return (
        f"queue {fields['queue']!r} has messages, but its registration and policy were deleted; append with a program "
        f"that already uses it, or inspect: {_line('doctor', fields, is_whole_queue=True)}"
    )


def _shards_changed(fields: Fields) -> str:
    return (
        f"queue {fields['queue']!r} had {many(fields['before'], 'shard')} and now has {fields['now']}: it was deleted, "
        "or the server lost its data, and another client registered it again; restart this program"
    )


def _other_shards(fields: Fields) -> str:
    return (
        f"queue {fields['queue']!r} was created with {many(fields['shards'], 'shard')}, not shards={fields['asked']}; "
        "leave shards out, or use another queue name"
    )


# -- a server ---------------------------------------------------------------------------------------------------

HINTS = {
    "rediss:": " (redis:// without TLS; ssl_certfile and ssl_keyfile if it wants a client certificate)",
    "redis:": " (rediss:// for TLS)",
}


def _server_full(fields: Fields) -> str:
    advice = "consumers go on and free memory; to raise maxmemory, see: "
    return f"server {fields['server']} is full (at its maxmemory); {advice}{doctor_of(fields['server'])}"


def _unreachable(fields: Fields) -> str:
    server, error = fields["server"], fields["error"]
    hint = next((hint for scheme, hint in HINTS.items() if server.startswith(scheme) and "refused" not in error), "")
    return f"server {server} can't be reached: {error}; is it running, and is the URL right?{hint}"


REFUSALS: dict[str, str | Callable[[Fields], str]] = {
    # an append
    "id_conflict": "id {id!r} of group {group} is already pending with other content; use a new id, or append the same "
    "body, headers and score to repeat it",
    "number_taken": "number {number} of group {group} is already pending under another id than {id!r}; use the next "
    "number, or the same id to repeat it",
    "late_message": _late_message,
    "batch_refused": _batch_refused,
    "append_unknown": _append_unknown,
    "not_replicated": _not_replicated,
    "replace_refused": "message {id!r} of group {group} was not replaced: some of its steps took effect. Let it end, "
    "or append the new one under another id",
    # groups
    "group_not_found": "group {group} has no messages in queue {queue!r}",
    "group_busy": _group_busy,
    "group_changed": "group {group} was changed or claimed meanwhile; check again",
    "no_failed_head": _no_failed_head,
    "other_head": "the head of group {group} is now {head!r}, not {id!r}; check again",
    "number_missing": "group {group} waits for a missing number (see explain); append it, or skip it without an id",
    "skip_refused": "message {id!r} of group {group} was not skipped: some of its steps took effect. Make it a dead "
    "letter, which keeps their outcome (dead_letter=True, --dead-letter), or pass yes=True (--yes); unskip undoes that",
    "skip_unknown": _skip_unknown,
    "pending_again": "message {id!r} of group {group} is pending again; see get",
    "nothing_skipped": "no skipped message of group {group} is kept in queue {queue!r} (id: {id}): it is already "
    "back, or another was skipped since",
    # messages
    "not_pending": "message {id!r} of group {group} is not pending in queue {queue!r}",
    "message_busy": _message_busy,
    "cancel_refused": "message {id!r} of group {group} was not cancelled: some of its steps took effect. Let it end; "
    "or, once it is parked, skip it with yes=True (--yes), which unskip undoes",
    "time_missing": "no time given; pass delay= in seconds, or at=",
    "number_fixed": "score can't be changed in a queue with sequence=True; leave it out",
    "message_unknown": "message {id!r} of group {group} is unknown in queue {queue!r}",
    "not_ended": "message {id!r} of group {group} has not ended: it is {state}",
    "is_dead_letter": _is_dead_letter,
    "content_gone": "message {id!r} of group {group} ended before queue {queue!r} had history_bodies, or while the "
    "server was full, so its content is gone",
    "contents_not_kept": _contents_not_kept,
    "content_unreadable": "message {id!r} of group {group}: its content can't be read: {error}",
    "history_changed": "message {id!r} of group {group} was just appended again, or dropped from the history; check "
    "again",
    "steps_unresolved": _steps_unresolved,
    # dead letters
    "dead_letter_not_found": "no dead letter {id!r} in queue {queue!r}; it may already have been redriven or purged "
    "(see dead list)",
    "stays_pending": "dead letter {id!r} of group {group} was left alone: a message with its id is pending again; see "
    "get",
    "stays_handled": "dead letter {id!r} of group {group} was left alone: a message with its id was handled within "
    "dedup_window; to have it handled again, append it with replace",
    "stays_changed": "dead letter {id!r} of group {group} was left alone: it died again meanwhile; check again",
    "dead_letter_asks": "dead letter {id!r} of group {group} waits for an answer: pass done= or again= for each "
    "unresolved step; see steps, or dead show",
    "nothing_chosen": "{action}: choose some by {by}, or all by everything=True",
    # answers for steps
    "answer_needed": "message {id!r} waits for an answer: {question}",
    "more_answers_needed": _more_answers_needed,
    "nothing_asked": "group {group} has no failed message, so no step waits for an answer",
    "ledger_unreadable": "{error}; its steps can't be answered for",
    "answer_too_large": "the answer can't be kept: {error}",
    "by_invalid": "by={value} must be 1 to {most} printable characters",
    "outcome_unknown": "whether {what} is unknown: the server's reply was lost; check before you repeat it",
    # a queue
    "queue_unknown": "there is no queue {queue!r} in namespace {namespace!r}",
    "queue_being_deleted": _queue_being_deleted,
    "queue_contended": "other clients keep changing queue {queue!r}; try again",
    "registration_lost": _registration_lost,
    "shards_changed": _shards_changed,
    "other_shards": _other_shards,
    # a server
    "server_full": _server_full,
    "password_missing": "server {server} requires a password; put it into the URL: redis://:PASSWORD@host ({error})",
    "password_refused": "server {server} refused the user or password; check the URL ({error})",
    "password_needless": "server {server} has no password, but the URL gives one; leave it out ({error})",
    "key_denied": "server {server}: the user has no right to a key; grant ~{{NAMESPACE:QUEUE:* and "
    "~NAMESPACE:queues with ACL SETUSER ({error})",
    "right_denied": "server {server}: the user lacks a right; grant it with ACL SETUSER ({error})",
    "some_right_denied": "server {server}: the user lacks a right; `doctor` names it; grant it with ACL SETUSER "
    "({error})",
    "certificate_refused": "server {server}: its certificate was refused; check the host name, the dates, and "
    "ssl_ca_certs in the URL ({error})",
    "certificate_missing": "server {server} requires a client certificate; give ssl_certfile and ssl_keyfile ({error})",
    "is_replica": "server {server} is a replica; connect to the primary ({error})",
    "became_replica": "server {server} became a replica; connect to the primary ({error})",
    "primary_lost": "server {server} is a replica that has lost its primary; connect to the primary ({error})",
    "is_loading": "server {server} is loading its data; try again ({error})",
    "cannot_persist": "server {server} can't persist to disk and refuses writes; check its log ({error})",
    "too_few_replicas": "server {server} has too few replicas and refuses writes; try again ({error})",
    "is_busy": "server {server} is busy with a long script; try again ({error})",
    "is_cluster": "server {server} is a cluster node, which is not supported yet ({error})",
    "wrong_type": "server {server}: a key of this queue has the wrong type; was it written by something else? "
    "({error})",
    "generation_unsettled": "server {server}: other clients are changing this queue's shard map; try again ({error})",
    "shard_clock_foreign": "server {server}: something else wrote the clock of a shard; `doctor --repair` fixes it "
    "({error})",
    "database_unknown": "server {server} has no such database; correct its number in the URL ({error})",
    "command_unknown": "server {server} lacks a command; Redis 7.0 or later, or Valkey 7.2 or later, is needed "
    "({error})",
    "protocol_unknown": "server {server} sent a reply that is not Redis protocol: {error}",
    "unreachable": _unreachable,
    "server_error": "server {server} answered with an error: {error}",
    # where the server is
    "url_empty": "the server URL is empty; give one, or set SEQUENCER_REDIS",
    "url_scheme_unknown": "server URL {url!r} must begin with redis://, rediss://, unix:// or valkey://",
    "url_database_invalid": "server URL {url!r} names no database: its path must be a number, as in {scheme}://host/0",
    "url_unreadable": "server URL {url!r} can't be read; check port, path and options",
    "cluster_client": "a RedisCluster client is not supported yet; pass a client of one server",
    "redis_invalid": "redis={kind} must be a URL, a redis.Redis client, or None for the embedded server",
    "variable_empty": "SEQUENCER_REDIS is empty; set it to the server's URL, or unset it for the embedded server",
    "wait_timeout_too_long": "wait_timeout={wait_s:g} must be below the socket_timeout={reply_s:g} of the URL",
    # the embedded server
    "embedded_disabled": "no server was given, and SEQUENCER_EMBEDDED=never: set SEQUENCER_REDIS to the server's URL, "
    "or pass redis=",
    "embedded_invalid": "SEQUENCER_EMBEDDED={value!r} is neither 'never' nor 'yes'; correct it, or unset it",
    "no_home_directory": "this user has no home directory: set SEQUENCER_REDIS to the server's URL, or SEQUENCER_HOME "
    "to a directory",
    "no_embedded_server": "no embedded server here ({tried}); install it: {install}, or pass redis=URL",
    "socket_path_too_long": "{path} is too long for a socket ({most} bytes); set SEQUENCER_HOME",
    "directory_refused": "can't make {path} for the embedded server: {error}",
    "directory_foreign": "{path} belongs to another user; set SEQUENCER_HOME to one of your own directories",
    "embedded_hangs": "the embedded server in {path} runs but does not answer; wait, or end it and start it again "
    "({error})",
    "embedded_not_started": "the embedded server {binary} did not start: {said} (log: {log})",
    "embedded_not_stopped": "the embedded server (pid {pid}) is still running {after_s:g} s after SHUTDOWN",
    # others
    "lease_lost": "the lease on group {group} (token {token}) ended; another consumer may hold it",
    "audit_entry_foreign": "entry {entry} of {stream} lacks a field or number ({error}); no consumer wrote it; remove "
    "it with XDEL",
    "kind_invalid": "kind={value} must be a string",
    "time_zone_missing": "{name}={value} has no time zone; give an aware datetime",
    "too_many_messages": "one append call takes 1 to {most} messages, got {count}",
}
