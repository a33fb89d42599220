"""Systems on which nothing would work are refused at the import."""

import subprocess
import sys


def test_windows_is_refused_in_one_sentence() -> None:
    program = "import sys; sys.platform = 'win32'; import sequencer"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: sequencer runs on Linux and macOS; on Windows, run it")


def test_the_command_says_the_same_sentence() -> None:
    program = "import sys; sys.platform = 'win32'; import sequencer_start; sequencer_start.main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: sequencer runs on Linux and macOS; on Windows, run it")
    assert done.stderr.count("\n") == 1
