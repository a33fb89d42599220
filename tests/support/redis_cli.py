"""As much of redis-cli as the commands of doctor need, and a shell in which they run."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

REDIS_CLI = """#!{python}
import sys
import redis

words, options = sys.argv[1:], {{}}
while words[0] in ("-s", "-n"):
    options[words[0]], words = words[1], words[2:]
with redis.Redis(unix_socket_path=options["-s"], db=options.get("-n", 0)) as client:
    if words[0] == "--scan":
        for key in client.scan_iter(match=words[2]):
            sys.stdout.buffer.write(key + b"\\n")
    else:
        client.execute_command(*words)
"""


def stand_in_for_redis_cli(folder: Path) -> None:
    for name in ("redis-cli", "valkey-cli"):
        (folder / name).write_text(REDIS_CLI.format(python=sys.executable))
        (folder / name).chmod(0o755)


def run_line(line: str, folder: Path, url: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of doctor as it stands."""
    stand_in_for_redis_cli(folder)
    path = os.pathsep.join([str(folder), sysconfig.get_path("scripts"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "SEQUENCER_REDIS": url}
    return subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, check=False)
