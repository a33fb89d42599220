"""Systems on which nothing would work are refused at the import."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("program", "begins"),
    [("import sequencer", "ImportError: "), ("import sequencer_start; sequencer_start.main()", "error: ")],
)
def test_windows_is_refused_in_one_sentence(program: str, begins: str) -> None:
    words = [sys.executable, "-c", f"import sys; sys.platform = 'win32'; {program}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"{begins}sequencer runs on Linux and macOS; on Windows, run it")
