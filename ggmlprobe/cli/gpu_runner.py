"""Runs the steps of `gpu-run`, and ends them at their limit or when the run is to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

import click

from ggmlprobe import gpu_run, journal
from ggmlprobe.cli.ab import B
from ggmlprobe.errors import RecordError
from ggmlprobe.gpu_run import Ended
from ggmlprobe.gpu_steps import Step
from ggmlprobe.verdict import FINDINGS
from ggmlprobe.worker.supervisor import PACKAGE_PARENT

# Windows has no SIGHUP
SIGNALS = [number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")]
BETWEEN_LOOKS = 0.1
"""Seconds between looks for a signal that came."""


class Runner:
    """Runs steps as commands of their own; a line on stderr when one begins.

    A signal is only counted, so that none can come between a step and what is written of it.

    Args:
        commands: arguments by step name. journals: files by step name.

    Attributes:
        stops: how many signals came that end the run.
    """

    def __init__(self, commands: Mapping[str, Sequence[str]], journals: Mapping[str, Path]) -> None:
        self.commands, self.journals, self.stops = commands, journals, 0
        for each in SIGNALS:
            # a shell has its background commands ignore SIGINT, and what they start; so does nohup
            # with SIGHUP, which is meant
            if each.name != "SIGHUP" or signal.getsignal(each) != signal.SIG_IGN:
                signal.signal(each, self._count)
        # the very package that runs now, whatever lies in the current folder
        paths = [PACKAGE_PARENT, os.environ.get("PYTHONPATH")]
        self.env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def _count(self, number: int, frame: FrameType | None) -> None:
        self.stops += 1

    def __call__(self, step: Step, seconds: float) -> Ended:
        """Run a step; SIGINT at its limit or the first signal, SIGKILL after that or the second."""
        click.echo(f"{step.name} (at most {seconds:.0f} s) ...", err=True, nl=False)
        with tempfile.TemporaryFile() as stderr:
            # in a session of its own, so that a Ctrl-C reaches it once, from here
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ggmlprobe", *self.commands[step.name]],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
                env=self.env, start_new_session=True,
            )  # fmt: skip
            if not self._ends(process, seconds, 1):
                # it writes what it has
                process.send_signal(signal.SIGINT)
                if not self._ends(process, gpu_run.GRACE, 2):
                    process.kill()
                process.wait()
            stderr.seek(0)
            lines = stderr.read().decode(errors="replace").splitlines()
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        found = process.returncode not in gpu_run.FINISHED and self._finding(step)
        return Ended(process.returncode, last, found, self.stops > 0)

    def _ends(self, process: subprocess.Popen[bytes], seconds: float, stops: int) -> bool:
        """Whether it ends in time, and before so many signals came."""
        end = time.monotonic() + seconds
        while process.poll() is None:
            left = end - time.monotonic()
            if left <= 0 or self.stops >= stops:
                return False
            try:
                process.wait(min(left, BETWEEN_LOOKS))
            except subprocess.TimeoutExpired:
                continue
        return True

    def _finding(self, step: Step) -> bool:
        """Whether finished rows hold a finding; of an A/B those of B, as `ab` judges itself."""
        try:
            rows = journal.read(self.journals[step.name]).results
        except RecordError:
            return False
        judged = [row for row in rows if step.args[0] != "ab" or row.config == B]
        return any(row.verdict in FINDINGS for row in judged)
