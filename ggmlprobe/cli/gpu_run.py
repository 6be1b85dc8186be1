"""`ggmlprobe gpu-run FOLDER`: everything that is wanted from a machine with a GPU, in minutes."""

from __future__ import annotations

import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click

from ggmlprobe import gpu_run as running
from ggmlprobe import gpu_steps
from ggmlprobe import report as writing
from ggmlprobe.cli.journals import INTERRUPTED
from ggmlprobe.cli.options import NAMES, THREADS_MAX, Finite
from ggmlprobe.configs import pick_device
from ggmlprobe.dispatch.arms import CUDA_LIKE
from ggmlprobe.dispatch.cuda_kernels import NOT_INSTALLED
from ggmlprobe.errors import ProbeError, UnknownDevice, UsageError
from ggmlprobe.ggml.device import BETWEEN
from ggmlprobe.gpu_run import Attempt, Ended
from ggmlprobe.gpu_steps import Step
from ggmlprobe.report import index
from ggmlprobe.worker.protocol import Event, Spec
from ggmlprobe.worker.supervisor import PACKAGE_PARENT, Worker

LOG, STATE = "gpu-run.md", "gpu-run.jsonl"
HUNG = "60"


@click.command("gpu-run", short_help="Run everything there is on one GPU, within minutes.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--device", metavar="NAME", help="Device [first GPU].")
@click.option("--lib", metavar="PATH", help="Directory or file of a libggml.")
@click.option(
    "--minutes",
    type=Finite(1e5, positive=True),
    default=8.0,
    show_default=True,
    help="Time for all of it.",
)
@click.option("-t", "--threads", type=click.IntRange(1, THREADS_MAX), help="Threads [all cores].")
@click.option(
    "--only",
    type=NAMES,
    metavar="STEP,...",
    help="Steps to run, by name [all]; a wrong name lists them.",
)
def gpu_run(
    folder: Path, device: str | None, lib: str | None, minutes: float, threads: int | None,
    only: tuple[str, ...] | None,
) -> None:  # fmt: skip
    """Run presets, sweeps, bisections, threshold arms and settings on one GPU, into FOLDER.

    Each step is a command of its own, the most valuable first; its .json, .md and journal are
    there at once. Run again with the same FOLDER to go on: finished steps are kept. README.md is an
    index of the records, gpu-run.md tells how each step ended and which were not reached.

    \b
    Example:
      ggmlprobe gpu-run h200
    """
    began = time.monotonic()
    chosen = probed_device(lib, device)
    steps = gpu_steps.steps(chosen["backend"], only)
    made(folder)
    common = ["--timeout", HUNG, *(["--lib", lib] if lib is not None else [])]
    common += ["--threads", str(threads)] if threads is not None else []
    commands = {step.name: command_of(step, chosen["name"], common, folder) for step in steps}
    about = [f"device: {chosen['name']}, {chosen['description']}", kernel_names(chosen["backend"])]
    click.echo("\n".join(about), err=True)
    attempts = running.load(folder / STATE)
    todo = running.unfinished(steps, shown(commands), attempts)
    keep(folder, steps, attempts, about)
    runner = Runner(commands)
    left = minutes * 60 - (time.monotonic() - began)
    for attempt in running.play(todo, shown(commands), left, time.monotonic, runner):
        said = f": {attempt.said}" if attempt.status == 2 else ""
        click.echo(f" {attempt.seconds:.0f} s, {running.outcome(attempt)}{said}", err=True)
        attempts.append(attempt)
        keep(folder, steps, attempts, about)
        indexed(folder)
    if (trouble := indexed(folder)) is not None:
        click.echo(f"no index: {trouble}", err=True)
    click.echo(f"{folder / LOG}: {running.conclusion(steps, attempts)}", err=True)
    sys.exit(INTERRUPTED if runner.stopped else running.exit_status(steps, attempts))


def probed_device(lib: str | None, name: str | None) -> Event:
    """The named device, else the first GPU.

    Raises:
        UnknownDevice: there is none; says why.
    """
    worker = Worker(Spec(lib), float(HUNG))
    try:
        ready = worker.ready()
    finally:
        worker.stop()
    found = pick_device(ready, name)
    if name is None and found["type"] != "GPU":
        there = ", ".join(device["name"] for device in ready["devices"])
        said = "; ".join([f"no GPU: this library has {there}", *ready["silent"]])
        raise UnknownDevice(f"{said}; another device can be named with --device")
    return found


def kernel_names(backend: str) -> str:
    """Whether kernels can be named, in a line."""
    if backend not in CUDA_LIKE or importlib.util.find_spec("cupti") is not None:
        return "kernel names: yes"
    return NOT_INSTALLED


def command_of(step: Step, device: str, common: Sequence[str], folder: Path) -> list[str]:
    """A step's arguments, with its device and files."""
    place = f"{device}{BETWEEN}CPU" if step.offload else device
    file = {kind: str(folder / f"{step.name}.{kind}") for kind in ("jsonl", "json", "md")}
    files = ["--resume", file["jsonl"], "--export-json", file["json"], "--export-md", file["md"]]
    return [*step.args, "--device", place, *common, *files, "--force"]


def shown(commands: dict[str, list[str]]) -> dict[str, str]:
    """Commands by step name, as a shell takes them."""
    return {name: shlex.join(["ggmlprobe", *args]) for name, args in commands.items()}


class Runner:
    """Runs steps as commands of their own; a line on stderr when one begins.

    Attributes:
        stopped: whether a Ctrl-C came.
    """

    def __init__(self, commands: dict[str, list[str]]) -> None:
        self.commands, self.stopped = commands, False
        # a shell has its background commands ignore SIGINT, and what they start
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # the very package that runs now, whatever lies in the current folder
        paths = [PACKAGE_PARENT, os.environ.get("PYTHONPATH")]
        self.env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def __call__(self, step: Step, seconds: float) -> Ended:
        """Run a step; SIGINT at its limit or a Ctrl-C, then SIGKILL."""
        click.echo(f"{step.name} (at most {seconds:.0f} s) ...", err=True, nl=False)
        with tempfile.TemporaryFile() as stderr:
            # in a session of its own, so that a Ctrl-C reaches it once, from here
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ggmlprobe", *self.commands[step.name]],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
                env=self.env, start_new_session=True,
            )  # fmt: skip
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                self._end(process)
            except KeyboardInterrupt:
                self.stopped = True
                self._end(process)
            stderr.seek(0)
            lines = stderr.read().decode(errors="replace").splitlines()
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return Ended(process.returncode, last, self.stopped)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        """Have it write what it has, and kill it where it does not."""
        process.send_signal(signal.SIGINT)
        try:
            process.wait(running.GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def made(folder: Path) -> None:
    """Make the folder.

    Raises:
        UsageError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}: name another folder") from error


def keep(
    folder: Path, steps: Sequence[Step], attempts: Sequence[Attempt], about: Sequence[str]
) -> None:
    """Write the attempts, and what they say together."""
    writing.write(folder / STATE, "".join(map(running.dump, attempts)), force=True)
    writing.write(folder / LOG, running.summary(steps, attempts, about), force=True)


def indexed(folder: Path) -> str | None:
    """Write the index of the records; why not, where that fails, which must not cost the run."""
    own = folder / index.NAME
    try:
        writing.write(own, index.index(folder), force=index.is_own(own))
    except ProbeError as error:
        return str(error)
    return None
