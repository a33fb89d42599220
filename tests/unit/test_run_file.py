"""The file of `sequencer run`: what it may say, and what is wrong in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sequencer.cli.file import read_with_server
from sequencer.errors import ConfigurationError
from sequencer.processes.master.run_file import find_file, read_file
from sequencer.settings.options import OutboxOptions
from sequencer.texts.commands import name_server, server_named

from ..support.refused import refused

FULL = """
redis = "env:SHOP_REDIS"
namespace = "shop"
environment = "production"
check_every = "500ms"
run_for = "1h"
max_processes = 20

[queues.orders]
app = "shop.orders:seq"
n = 4
max = 12
wait = "2s"
lease = "30s"
grace = "25s"
max_age = "1h"
hang_after = "20m"
max_messages = 1_000_000
handler_timeout = "1m"
outage = ["ConnectionError", "shop.errors.Away"]
check = "shop.ops:look"
history_window = "3d"
env = { TZ = "UTC", TOKEN = "env:SHOP_TOKEN" }
cwd = "code"

[queues.mails]
exec = "bin/send-mail"
pass_redis = true
n = 0
max_attempts = 3
backoff = "2s"
on_failure = "dead_letter"
park_on = ["CommandFailed"]
"""


def write(directory: Path, text: str, name: str = "sequencer.toml") -> Path:
    (directory / "code").mkdir(exist_ok=True)
    path = directory / name
    path.write_text(text)
    return path


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_REDIS", "redis://:secret@shop/0")
    monkeypatch.setenv("SHOP_TOKEN", "t0ken")
    monkeypatch.setenv("SHOP_EMPTY", "")


def test_everything_that_it_may_say(tmp_path: Path) -> None:
    plan = read_file(write(tmp_path, FULL))
    orders, mails = plan.pools
    assert (plan.redis, plan.namespace, plan.environment) == ("redis://:secret@shop/0", "shop", "production")
    assert (plan.check_every_s, plan.run_for_s, plan.max_processes) == (0.5, 3600.0, 20)
    assert (orders.queue, orders.n, orders.most, orders.wait_s, orders.hang_after_s) == ("orders", 4, 12, 2.0, 1200.0)
    config = orders.config
    assert (config.app, config.lease_s, config.grace_s, config.max_age_s) == ("shop.orders:seq", 30.0, 25.0, 3600.0)
    assert (config.max_messages, config.handler_timeout_s, config.is_pooled) == (1_000_000, 60.0, True)
    assert config.settings == {"outage": ("ConnectionError", "shop.errors.Away"), "history_window": 3 * 86_400.0}
    assert orders.env == {"TZ": "UTC", "TOKEN": "t0ken"}
    assert (orders.cwd, orders.check) == (str(tmp_path / "code"), "shop.ops:look")
    assert (mails.n, mails.most, mails.config.exec, mails.config.pass_redis) == (0, 1, "bin/send-mail", True)
    settings = {"max_attempts": 3, "backoff": 2.0, "on_failure": "dead_letter", "park_on": ("CommandFailed",)}
    assert mails.config.settings == settings


def test_alerts_of_all_queues_and_of_one(tmp_path: Path) -> None:
    text = (
        f"{OPS}{OPS.replace('ops', 'night')}"
        "[alerts]\nparked = 3\nwait = '5m'\nrepeat = '0'\n"
        "[queues.orders]\nexec = 'true'\n[queues.orders.alerts]\nwait = '1h'\ntexts = false\nto = ['night']\n"
        "[queues.mails]\nexec = 'true'\n"
    )
    plan = read_file(write(tmp_path, text))
    orders, mails = (pool.alerts for pool in plan.pools)
    assert orders is not None
    assert mails is not None
    assert [one.name for one in plan.targets] == ["ops", "night"]
    assert (orders.to, orders.texts, orders.limits.wait, orders.limits.parked) == (("night",), False, 3600.0, 3)
    assert (mails.to, mails.texts, mails.limits.wait, mails.repeat_s) == (("ops", "night"), True, 300.0, 0.0)
    assert read_file(write(tmp_path, ORDERS)).pools[0].alerts is None


def test_of_pyproject_it_is_the_table_of_the_tool_beside_the_app_of_consume(tmp_path: Path) -> None:
    text = '[tool.sequencer]\napp = "a:b"\n[tool.sequencer.queues.orders]\nexec = "true"\n[tool.other]\nx = 1\n'
    (pool,) = read_file(write(tmp_path, text, "pyproject.toml")).pools
    assert (pool.queue, pool.config.exec, pool.config.app) == ("orders", "true", None)


def test_the_call_goes_before_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, FULL)
    asked = read_file(path, redis="redis://here/0", namespace="mine")
    assert (asked.redis, asked.namespace) == ("redis://here/0", "mine")
    assert {pool.config.namespace for pool in asked.pools} == {"mine"}
    bare = write(tmp_path, '[queues.orders]\nexec = "true"\n')
    assert (read_file(bare).namespace, read_file(bare).redis) == ("sequencer", None)


def test_the_nearest_file_upwards_is_meant(tmp_path: Path) -> None:
    below = tmp_path / "code" / "deep"
    write(tmp_path, "", "pyproject.toml")
    below.mkdir(parents=True)
    assert find_file(None, below) == tmp_path / "pyproject.toml"
    own = write(tmp_path, FULL)
    assert find_file(None, below) == own, "a file of its own goes first"
    assert find_file("other.toml", below) == Path("other.toml")


ORDERS = '[queues.orders]\napp = "a:b"\n'
OPS = '[targets.ops]\ntype = "command"\nexec = "true"\n'


WRONG: list[tuple[str, str, dict[str, Any]]] = [
    ("", "queues_missing", {}),
    ("x", "toml_invalid", {}),
    ("[queue.orders]\n", "name_unknown", {"name": "queue", "meant": "queues"}),
    ("[queues]\norders = 1\n", "table_expected", {"name": "queues.orders"}),
    ("[tool.sequencer.queues.orders]\n", "tool_table_misplaced", {}),
    ("[alerts]\npark = 1\n" + ORDERS, "name_unknown", {"place": "alerts", "meant": "parked"}),
    ("[alerts]\nto = ['opps']\n" + OPS + ORDERS, "name_unknown", {"place": "alerts", "kind": "target", "meant": "ops"}),
    (
        "[alerts]\nto = ['ops']\n" + OPS + OPS.replace("ops", "night") + ORDERS,
        "target_unused",
        {"place": "targets.night"},
    ),
    ("[targets.ops]\ntype = 'feishoo'\n" + ORDERS, "name_unknown", {"place": "targets.ops", "kind": "type"}),
    (ORDERS + "leese = '1s'\n", "name_unknown", {"place": "queues.orders", "meant": "lease"}),
    ("[queues.orders]\n", "handler_missing", {"place": "queues.orders"}),
    (ORDERS + "hang_after = '1m'\n", "option_needed", {"needed": "max_age", "place": "queues.orders"}),
    (ORDERS + "cwd = 'none'\n", "directory_missing", {"place": "queues.orders", "value": "none"}),
    (ORDERS + "env = { A = 'env:NONE' }\n", "variable_missing", {"place": "queues.orders", "name": "env.A"}),
    (ORDERS + "env = { 'A=B' = 'x' }\n", "env_invalid", {"place": "queues.orders", "name": "A=B"}),
    (ORDERS + 'env = { A = "\\u0000" }\n', "env_invalid", {"place": "queues.orders", "name": "A"}),
    (ORDERS + "n = 4\n[queues.mails]\nexec='true'\nn = 61\n", "max_processes_too_low", {"most": 64, "needed": 65}),
    ("redis = 'env:SHOP_EMPTY'\n" + ORDERS, "variable_blank", {"name": "redis", "variable": "SHOP_EMPTY"}),
    ("redis = 'redis://:secret@host/0'\n" + ORDERS, "secret_in_file", {"name": "redis"}),
    ("redis = 'redis+sentinel://h1,h2/n?sentinel_password=secret'\n" + ORDERS, "secret_in_file", {"name": "redis"}),
    ("redis = 'redis://:secret@[::1'\n" + ORDERS, "url_unreadable", {"place": "redis"}),
]
OF_OTHERS = [
    "[queues.'or ders']\napp = 'a:b'\n",
    *(
        ORDERS + more
        for more in ("n = 4\nmax = 3\n", "exec = 'true'\n", "pass_redis = true\n", "alerts = { lag = 'soon' }")
    ),
    *(ORDERS + more for more in ("env = { A = 'secret', B = 1 }\n", "sequence = true\nreorder_window = 1\n")),
    "check_every = '1ms'\n" + ORDERS,
]
"""Whose errors are those of an option."""


@pytest.mark.parametrize(("text", "code", "fields"), WRONG)
def test_what_is_wrong_has_its_place(tmp_path: Path, text: str, code: str, fields: dict[str, Any]) -> None:
    """Also where another server is asked for, but for a variable that is not read then."""
    path = write(tmp_path, text)
    place = [str(path), *filter(None, [fields.get("place")])]
    for redis in (None,) if "SHOP_EMPTY" in text else (None, "redis://here/0"):
        with refused(ConfigurationError, code, **fields | {"place": place}) as caught:
            read_file(path, redis=redis)
        assert "secret" not in str(caught.value).replace("is secret", "")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", OF_OTHERS)
def test_an_option_that_is_wrong_has_its_place_too(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        read_file(path)
    assert caught.value.fields["place"][0] == str(path)
    assert len(caught.value.fields["place"]) == ("[queues" in text) + 1 - text.startswith("check_every")
    assert "secret" not in str(caught.value)


def test_the_outbox_of_a_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DB", "sqlite:///shop.db")
    text = "[queues.orders.outbox]\ndb = 'env:SHOP_DB'\nparts = 2\nkeep = 'until_done'\nprefix = 'shop_'\n"
    (pool,) = read_file(write(tmp_path, ORDERS + text)).pools
    assert pool.outbox == OutboxOptions(db="sqlite:///shop.db", parts=2, keep="until_done", prefix="shop_")
    wrong = {
        "": "database_missing",
        "db = 'oracle://a/b'": "database_unsupported",
        "db = 'postgresql://a:secret@b/c'": "secret_in_file",
        "db = 'sqlite:///a'\nparts = 0": "not_whole",
        "db = 'sqlite:///a'\nkeep = 'for ever'": "duration_invalid",
    }
    for words, code in wrong.items():
        path = write(tmp_path, f"{ORDERS}[queues.orders.outbox]\n{words}\n")
        with refused(ConfigurationError, code, place=[str(path), "queues.orders", "outbox"]) as caught:
            read_file(path)
        assert "secret" not in str(caught.value).replace("is secret", "")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with refused(ConfigurationError, "queues_missing"):
        read_file(write(tmp_path, "[tool.sequencer]\napp = 'a:b'\n", "pyproject.toml"))
    with refused(ConfigurationError, "file_unreadable"):
        read_file(tmp_path / "none.toml")
    with refused(ConfigurationError, "run_file_missing", directory="/"):
        find_file(None, Path("/"))


def test_a_file_whose_values_are_of_any_kind_is_told_by_a_sentence(tmp_path: Path) -> None:
    """Each word, with values of every kind: an error of ours, and no other."""
    kinds = ["true", "1", "1.5", "'x'", "''", "[]", "[1]", "{ a = 1 }", "1979-05-27", "inf", "'9e99'"]
    kinds += ['"a\\u0000b"', f'"{"d" * 5000}"', "9" * 5000, "[" * 3000 + "]" * 3000]
    names = ("app", "exec", "n", "max", "wait", "lease", "max_age", "max_messages", "outage", "env", "pass_redis")
    told = []
    for name in names:
        for kind in kinds:
            path = write(tmp_path, f"[queues.orders]\n{name} = {kind}\n" + ("" if name == "app" else "app = 'a:b'\n"))
            try:
                read_file(path)
            except ConfigurationError as error:
                told.append(str(error))
    assert len(told) > 60
    assert not [text for text in told if "\n" in text or len(text) > 1000]


def test_queues_without_consumers_of_their_own_need_room_for_one(tmp_path: Path) -> None:
    text = "max_processes = {}\n" + ORDERS + "n = 2\n[queues.mails]\nexec = 'true'\nn = 0\n"
    with refused(ConfigurationError, "max_processes_too_low", most=2, needed=3):
        read_file(write(tmp_path, text.format(2)))
    assert read_file(write(tmp_path, text.format(3))).max_processes == 3


@pytest.mark.parametrize(("given", "named"), [(None, "redis://127.0.0.1:7391"), ("redis://127.0.0.1:7392", "")])
def test_lines_for_a_shell_name_the_server_of_the_file(tmp_path: Path, given: str | None, named: str) -> None:
    """That of `--redis` or a variable is not the file's: who names it does so."""
    path = write(tmp_path, f'redis = "redis://127.0.0.1:7391"\n{ORDERS}')
    try:
        read_with_server(path, None, given)
        assert server_named() == named
    finally:
        name_server("")
