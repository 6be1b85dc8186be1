"""`ggmlprobe gpu-run FOLDER`: everything that is wanted from a machine with a GPU, in minutes."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from ggmlprobe import gpu_run as running
from ggmlprobe import gpu_steps
from ggmlprobe import report as writing
from ggmlprobe.cli.fleet import cores
from ggmlprobe.cli.gpu_runner import Runner
from ggmlprobe.cli.options import NAMES, THREADS_MAX, Finite
from ggmlprobe.configs import pick_device
from ggmlprobe.dispatch.passes import NAMED, NO_CUPTI, check_kernels
from ggmlprobe.errors import ProbeError, UnknownDevice, UsageError
from ggmlprobe.ggml.device import BETWEEN
from ggmlprobe.gpu_run import Attempt, Setup
from ggmlprobe.gpu_steps import Step
from ggmlprobe.report import index
from ggmlprobe.worker.protocol import Event, Spec
from ggmlprobe.worker.supervisor import Worker

LOG, STATE = "gpu-run.md", "gpu-run.jsonl"
KINDS = ("jsonl", "json", "md")
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
    there at once. Run again with the same FOLDER to go on: finished steps are kept, and device,
    library and threads must be the same. README.md is an index of the records, gpu-run.md tells how
    each step ended and which were not reached.

    Exit status: 2 a step failed or none came to its end, 1 a finding, also of a step that was cut
    short, 0 every step came to its end and all is invariant, 3 no finding so far but steps are
    missing, 130 interrupted.

    \b
    Example:
      ggmlprobe gpu-run h200
    """
    began = time.monotonic()
    ready, chosen = probed_device(lib, device)
    kernels, said = kernel_names(ready, chosen["backend"])
    every = gpu_steps.steps(chosen["backend"], kernels=kernels)
    steps = gpu_steps.steps(chosen["backend"], only, kernels)
    library = ready["library"]
    setup = Setup(
        chosen["name"], chosen["description"], library["path"], library["identity"],
        threads or cores(),
    )  # fmt: skip
    made(folder)
    attempts = earlier(folder, setup, every)
    common = ["--timeout", HUNG, *(["--lib", lib] if lib is not None else [])]
    common += ["--threads", str(threads)] if threads is not None else []
    commands = {step.name: command_of(step, chosen["name"], common, folder) for step in steps}
    about = [f"device: {setup.device}, {setup.description}", said]
    click.echo("\n".join(about), err=True)
    keep(folder, setup, steps, attempts, about)
    runner = Runner(commands, {step.name: folder / f"{step.name}.jsonl" for step in steps})
    todo = running.unfinished(steps, attempts)
    left = minutes * 60 - (time.monotonic() - began)
    for attempt in running.play(todo, shown(commands), left, time.monotonic, runner):
        # first, as a terminal that was closed cannot be written
        attempts.append(attempt)
        keep(folder, setup, steps, attempts, about)
        indexed(folder)
        why = f": {attempt.said}" if attempt.status == running.FAILED else ""
        click.echo(f" {attempt.seconds:.0f} s, {running.outcome(attempt)}{why}", err=True)
        if runner.stops:
            break
    if (trouble := indexed(folder)) is not None:
        click.echo(f"no index: {trouble}", err=True)
    click.echo(f"{folder / LOG}: {running.conclusion(steps, attempts)}", err=True)
    sys.exit(running.INTERRUPTED if runner.stops else running.exit_status(steps, attempts))


def probed_device(lib: str | None, name: str | None) -> tuple[Event, Event]:
    """What the library tells, and of it the named device, else the first GPU.

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
    return ready, found


def kernel_names(ready: Event, backend: str) -> tuple[bool, str]:
    """Whether kernels can be named or a note says why not, and a line on it."""
    own = set(backend.split(BETWEEN)) & NAMED
    try:
        check_kernels(ready["files"], {backend})
    except ProbeError as error:
        return False, f"kernel names: no, steps run without --kernels: {error}"
    if not own:
        return True, f"kernel names: no, {backend} tells none"
    if "CUDA" in own and importlib.util.find_spec("cupti") is None:
        return True, NO_CUPTI
    return True, "kernel names: yes"


def command_of(step: Step, device: str, common: Sequence[str], folder: Path) -> list[str]:
    """A step's arguments, with its device and files."""
    alone = step.offload and "CPU" not in device.split(BETWEEN)
    place = f"{device}{BETWEEN}CPU" if alone else device
    file = {kind: str(folder / f"{step.name}.{kind}") for kind in KINDS}
    files = ["--resume", file["jsonl"], "--export-json", file["json"], "--export-md", file["md"]]
    return [*step.args, "--device", place, *common, *files, "--force"]


def shown(commands: dict[str, list[str]]) -> dict[str, str]:
    """Commands by step name, as a shell takes them."""
    return {name: shlex.join(["ggmlprobe", *args]) for name, args in commands.items()}


def made(folder: Path) -> None:
    """Make the folder.

    Raises:
        UsageError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}: name another folder") from error


def earlier(folder: Path, setup: Setup, steps: Sequence[Step]) -> list[Attempt]:
    """Attempts of a folder that this run may go on in.

    Raises:
        RecordError: its list of steps is something else.
        UsageError: it ran with another setup, or has files that are not of a run.
    """
    other, attempts = running.load(folder / STATE)
    if other is None:
        files = [LOG, *(f"{step.name}.{kind}" for step in steps for kind in KINDS)]
        there = [name for name in files if os.path.lexists(folder / name)]
        if there:
            raise UsageError(f"{folder / there[0]} is not of a gpu-run: name another folder")
    elif differing := other.other_than(setup):
        raise UsageError(f"{folder} holds a run with {differing}: name another folder")
    return attempts


def keep(
    folder: Path, setup: Setup, steps: Sequence[Step], attempts: Sequence[Attempt],
    about: Sequence[str],
) -> None:  # fmt: skip
    """Write the attempts, and what they say together."""
    writing.write(folder / STATE, running.dump(setup, attempts), force=True)
    writing.write(folder / LOG, running.summary(steps, attempts, about), force=True)


def indexed(folder: Path) -> str | None:
    """Write the index of the records; why not, where that fails, which must not cost the run."""
    own = folder / index.NAME
    if own.exists() and not index.is_own(own):
        return f"{own} is not of a gpu-run and is kept"
    try:
        writing.write(own, index.index(folder), force=True)
    except ProbeError as error:
        return str(error)
    return None
