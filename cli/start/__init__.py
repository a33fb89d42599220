"""The console script `sequencer`. It lies outside the package: to import anything of that takes a third of a second.

Until a command runs, Ctrl-C has its default action and ends the process without a traceback. (What comes before this
file, the interpreter's own start, is Python's.)

Not here: any command (`cli`).
The rule: nothing of `sequencer` is imported before Ctrl-C ends the process quietly.
"""

import gc
import os
import signal
import sys
import threading

GIVEN = "_SEQUENCER_REDIS_IS_OF_THE_CALL"
"""Set beside SEQUENCER_REDIS where the call named the server, and not a variable; the command line takes it out."""


def main() -> None:
    """Run the command line; the exit status is the command's."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if os.getpid() == 1:  # of a container: there signals that nobody handles do nothing
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda number, _: os._exit(128 + number))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])  # to `run` it means a reload: it waits for who knows
    hide_password(sys.argv)
    gc.disable()  # nothing of what is imported is garbage, and to look for some takes a fifth of the time
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


def hide_password(argv: list[str]) -> None:
    """Start again without a password among the arguments, where `ps` shows it to every user of the machine.

    Here, since all that is imported later takes a third of a second in which it would show.
    """
    for i, word in enumerate(argv):
        name, is_joined, value = word.partition("=")
        if name != "--redis":
            continue
        if not is_joined and i + 1 < len(argv):
            value = argv[i + 1]
        has_password = "@" in value or "password=" in value.lower()
        if has_password:
            words = [*argv[:i], *argv[i + (1 if is_joined else 2) :]]
            os.environ["SEQUENCER_REDIS"], os.environ[GIVEN] = value, "1"
            os.execv(
                sys.executable, [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - len(argv) + 1], *words[1:]]
            )
