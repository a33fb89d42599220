"""The console script `sequencer`. It lies outside the package: to import anything of that takes a third of a second.

Until a command runs, Ctrl-C has its default action and ends the process without a traceback. (What comes before this
file, the interpreter's own start, is Python's.)
"""

import os
import signal
import sys
import threading


def main() -> None:
    """Runs the command line; the exit status is the command's."""
    if sys.platform == "win32":
        try:
            import sequencer  # noqa: F401 - it refuses this system
        except ImportError as error:
            sys.exit(f"error: {error}")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if os.getpid() == 1:  # of a container: there signals that nobody handles do nothing
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda number, _: os._exit(128 + number))
    from sequencer.cli import main as run

    status = run()
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        for stream in (sys.stdout, sys.stderr):  # an application that was imported would keep us here for ever
            stream.flush()
        os._exit(status)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) not in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, signal.SIG_IGN)  # the interpreter gives them their default action while it ends
    sys.exit(status)
