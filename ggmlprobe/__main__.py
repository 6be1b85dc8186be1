"""The command's first and last moments: `python -m ggmlprobe`, and what the script calls."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import traceback
from types import FrameType

INTERRUPTED = 130
FAILED = 2
# git bisect run stops on any status above 127
STOP = 128
TRACEBACK = "GGMLPROBE_TRACEBACK"


def main() -> None:
    """Run the command line of this process."""
    mend_streams()
    try:
        load_and_run()
    # the outermost place there is: a traceback's status 1 would read as a finding
    except Exception as error:
        tell(error)
        sys.exit(STOP if "--git-bisect" in sys.argv else FAILED)
    finally:
        drop_unwritable()


def load_and_run() -> None:
    """Import the command line, which Ctrl-C ends at once and silently, and run it."""
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeded:
        signal.signal(signal.SIGINT, leave)
    command = importlib.import_module("ggmlprobe.cli").main
    if heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command(prog_name="ggmlprobe")


def leave(number: int, frame: FrameType | None) -> None:
    """End this process: an exception would surface in the middle of some module's import."""
    os._exit(INTERRUPTED)


def mend_streams() -> None:
    """Open /dev/null as what the shell closed (2>&-), so that no other file takes its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def tell(error: Exception) -> None:
    """Say on stderr, in one line, what went wrong in here."""
    with contextlib.suppress(OSError):
        if os.environ.get(TRACEBACK):
            traceback.print_exception(error)
        what = " ".join(f"{type(error).__name__}: {error}".split())
        said = f"ggmlprobe: internal error: {what} (report it; {TRACEBACK}=1 shows where)"
        print(said, file=sys.stderr)


def drop_unwritable() -> None:
    """Send nowhere what a stream cannot write, which would fail once more as Python ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)


if __name__ == "__main__":
    main()
