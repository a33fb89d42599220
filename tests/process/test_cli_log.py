"""The log of `sequencer consume`: as text and as JSON, of every process."""

from __future__ import annotations

import json
import re

from .conftest import Cli, Work


def test_the_log_says_what_failed_and_what_to_do(cli: Cli, work: Work) -> None:
    work.add("a", {"fail": "no stock"}, {})
    done = cli.run(
        *("consume", "jobs", "--app", "shop:handle"), *("--max-attempts", 2, "--backoff", 0.01, "--until-empty")
    )
    assert done.returncode == 4
    lines = done.stderr.splitlines()
    begin = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"
    (failed,) = [line for line in lines if "message failed" in line]
    assert re.match(begin + r" WARNING sequencer\[\d+\] jobs: message failed: group=a id=a-0 attempt=1 of 2 ", failed)
    (parked,) = [line for line in lines if "group parked" in line]
    assert re.match(begin + r" ERROR sequencer\[\d+\] jobs: group parked: group=a id=a-0 attempt=2 of 2 ", parked)
    assert "ValueError: no stock" in lines
    inspect, retry, skip = (line.split(": sequencer ") for line in parked.rpartition("; ")[2].split(" / "))
    assert (inspect[0], retry[0], skip[0]) == ("inspect", "retry", "skip")
    assert "a-0" in cli.run(*inspect[1].split()).stdout
    assert cli.run(*retry[1].split()).returncode == 0


def test_with_a_server_named_in_the_call_each_command_in_the_log_names_it(cli: Cli, work: Work) -> None:
    """Pasted as it stands into a shell where no variable says which server is meant."""
    for group in "ab":
        work.add(group, {})
    url = cli.environment.pop("SEQUENCER_REDIS")
    words = ("consume", "jobs", "--exec", "false", "--max-attempts", 1, "--until-empty", "--redis", url)
    done = cli.run(*words)
    assert done.returncode == 4
    parked = next(line for line in done.stderr.splitlines() if "group parked" in line)
    commands = re.findall(r"(sequencer (?:explain|resume|skip) .*?)(?: / |$)", parked)
    assert len(commands) == 3
    assert all(command.endswith(f"--redis {url}") for command in commands)
    assert cli.run(*commands[0].split()[1:]).returncode == 0
    summed = [line for line in done.stderr.splitlines() if "sequencer parked jobs --by-error" in line]
    assert summed[-1].endswith(f" --redis {url}"), "the supervisor's last words too"


def test_the_server_that_an_app_names_is_named(cli: Cli, work: Work) -> None:
    url, namespace = cli.environment.pop("SEQUENCER_REDIS"), cli.environment["SEQUENCER_NAMESPACE"]
    (cli.directory / "own.py").write_text(
        f"from sequencer import Sequencer\nseq = Sequencer('jobs', {url!r}, namespace={namespace!r})\n"
        "@seq.handler\ndef handle(message):\n    raise ValueError\n"
    )
    work.add("a", {})
    words = ("consume", "jobs", "--max-attempts", 1, "--until-empty")
    done = cli.run(*words, "--app", "own:seq")
    assert re.search(f"sequencer explain jobs a --namespace {namespace} --redis {re.escape(url)} /", done.stderr)


def test_as_json_each_line_is_an_object(cli: Cli, work: Work) -> None:
    work.add("a", {"fail": "no stock"})
    (cli.directory / "chatty.py").write_text(
        "import logging\nimport shop\n"
        "def handle(message):\n"
        "    logging.getLogger('chatty').info('saw %s', message.id)\n"
        "    shop.handle(message)\n"
    )
    words = ("consume", "jobs", "--app", "chatty:handle", "--max-attempts", 1, "--until-empty")
    done = cli.run(*("--log-format", "json", "--log-level", "INFO"), *words)
    assert done.returncode == 4
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    (chatty,) = [line for line in lines if line["logger"] == "chatty"]
    started, parked, ended = [line for line in lines if line["logger"] != "chatty"]
    assert (started["event"], parked["event"], ended["event"]) == ("service started", "group parked", "service ended")
    assert started["pid"] != parked["pid"], "the supervisor's own"
    assert (chatty["message"], chatty["level"]) == ("saw a-0", "INFO")
    assert (parked["queue"], parked["group"], parked["id"]) == ("jobs", ["a"], "a-0")
    assert (parked["error_type"], parked["level"], parked["pid"]) == ("ValueError", "ERROR", chatty["pid"])
    assert parked["traceback"].splitlines()[-1] == "ValueError: no stock"
    assert (ended["failed"], ended["parked"], ended["handled"]) == (1, 1, 0)
