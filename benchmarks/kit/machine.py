"""On what a benchmark ran: processor, system, versions. A figure without them cannot be compared with another."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import redis
from redis.utils import HIREDIS_AVAILABLE

from sequencer.doctor.server import parse_info
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.values.version import VERSION


def describe(url: str) -> dict[str, Any]:
    """The machine, the software, and the server at `url`. Raises ServerError."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "kernel": f"{platform.system()} {platform.release()}",
        "load_before": round(os.getloadavg()[0], 2),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "redis_py": redis.__version__,
        "hiredis": metadata.version("hiredis") if HIREDIS_AVAILABLE else None,
        "server": _server(url),
        "sequencer": VERSION,
        "git_commit": _git_commit(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _server(url: str) -> dict[str, Any]:
    link = Link(Endpoint.from_url(url))
    try:
        info = parse_info(link.command("INFO").decode("utf-8", "replace"))
    finally:
        link.close()
    valkey = info.get("valkey_version")
    return {
        "version": f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version')}",
        "append_only_file": info.get("aof_enabled") == "1",
        "transport": url.partition("://")[0],
    }


def _git_commit() -> str | None:
    """The commit of this file's repository, `-dirty` when the tree differs; None when it is installed elsewhere."""
    here = Path(__file__)
    try:
        for words in (
            ["ls-files", "--error-unmatch", here.name],
            ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
        ):
            command = ["git", "-C", str(here.parent), *words]
            said = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return said.strip()
