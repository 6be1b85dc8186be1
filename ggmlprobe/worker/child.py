"""The child process: loads one libggml, runs cases, tells hashes and statistics, not tensors."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from ggmlprobe import faults, probe, system
from ggmlprobe.checks import paired
from ggmlprobe.dispatch import passes
from ggmlprobe.errors import (
    ComputeFailed,
    OutOfMemory,
    ProbeError,
    Unsupported,
    UsageError,
)
from ggmlprobe.ggml import backends, interposer, vulkan_labels
from ggmlprobe.ggml.computing import Computing
from ggmlprobe.ggml.device import devices
from ggmlprobe.ggml.find import Found, find
from ggmlprobe.ggml.library import Library, check
from ggmlprobe.ggml.op_ids import op_ids
from ggmlprobe.ggml.sched import start
from ggmlprobe.ops import OPS
from ggmlprobe.ops.base import Op, Session
from ggmlprobe.pool import PoolStore
from ggmlprobe.worker.process import die_with_parent, internal, quiet_start, refuse
from ggmlprobe.worker.protocol import Event, ModelRequest, Request, Spec, model_spec

GIB = 2**30
ROW_ERRORS = (Unsupported, UsageError, OutOfMemory, MemoryError, ComputeFailed)


def failure(error: Exception) -> dict[str, str]:
    """Verdict and detail of an error that is a row."""
    if isinstance(error, (Unsupported, UsageError)):
        return {"verdict": "UNSUPPORTED", "detail": str(error)}
    if isinstance(error, (OutOfMemory, MemoryError)):
        return {"verdict": "OOM", "detail": str(error) or "out of memory"}
    return {"verdict": "CRASH", "detail": str(error)}


def tuples(params: dict[str, Any]) -> dict[str, Any]:
    """JSON's lists as the tuples the ops' dataclasses hold."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in params.items()}


def shown_path(found: Found) -> str:
    """The library's place for the record: the packaged one is named as in the package."""
    return "ggmlprobe/lib" if found.origin == "packaged" else str(found.given or found.directory)


def tokens(request: Request) -> int:
    """How many tokens the case has."""
    return request.tokens or max(request.widths)


class Child:
    """One library and the devices of it that were asked for.

    Args:
        out: where events go.

    Attributes:
        models: a model_child.ModelSession once a model was asked for.
    """

    def __init__(self, spec: Spec, out: TextIO) -> None:
        self.out = out
        if spec.kernels:
            vulkan_labels.open_first()
        self.library = Library.load(
            find(spec.lib), [Path(path).resolve() for path in spec.interpose], self.loading
        )
        self.loading("checking its sums")
        check(self.library)
        directory = Path(spec.cache_dir) if spec.cache_dir else None
        self.pools = PoolStore(self.library, directory, len(system.cores()))
        self.backends: dict[str | None, Computing] = {}
        self.models: Any = None
        if spec.endpoint is not None:
            self.say("connecting")
            self.library.add_server(spec.endpoint)

    def say(self, event: str, **fields: Any) -> None:
        """Send one event."""
        self.out.write(json.dumps({"event": event, **fields}) + "\n")
        self.out.flush()

    def loading(self, step: str) -> None:
        """Say what a death from now on is blamed on."""
        self.say("loading", step=step)

    def fail(self, error: Exception) -> None:
        """Tell that what is left of a request cannot run."""
        self.say("failed", seed=None, width=None, **failure(error))

    def describe(self) -> Event:
        """Library, types and devices, as the parent's record needs them."""
        library = self.library
        return {
            "library": {
                "path": shown_path(library.found), "version": library.version,
                "commit": library.commit, "origin": library.found.origin, "stamp": library.stamp,
                "files": [path.name for path in library.files], "identity": library.identity,
            },
            "types": {t.name: {"id": t.id, "blck_size": t.blck_size, "type_size": t.type_size,
                               "quantized": t.quantized} for t in library.types.values()},
            "ops": op_ids(library),
            "devices": [
                dataclasses.asdict(device) | {"files": backends.files(library, device.backend)}
                for device in devices(library)
            ],
            "silent": library.silent_backends(),
            "files": [str(path) for path in library.files],
            "overshadowed": interposer.overshadowed(library.interposed),
        }  # fmt: skip

    def session(self, request: Request) -> Session:
        """The device and settings a request names."""
        if request.device not in self.backends:
            self.backends[request.device] = start(self.library, request.device)
        backend = self.backends[request.device]
        return Session(
            self.library, backend, self.pools, request.buft, request.threads,
            request.threads_batch, faults.readback(request.fault), request.hot,
            functools.partial(self.turn, request.turns),
        )  # fmt: skip

    def turn(self, ask: bool, done: int, planned: int) -> bool:
        """Whether to time another round: as planned, or as the parent says."""
        self.say("turn", done=done, planned=planned)
        if not ask:
            return done < planned
        line = sys.stdin.readline()
        return bool(line) and bool(json.loads(line)["go"])

    def run(self, request: Request) -> None:
        """Run a case: an event for each (seed, width), then `done`."""
        self.say("begin", phase="inputs", seed=request.seeds[0], width=None)
        session = self.session(request)
        before = session.backend.compute_seconds
        try:
            op = OPS[request.op](**tuples(request.params))
            with self.evaluators(request, session, op) as (serial, block):
                failed: set[int] = set()
                for seed in request.seeds:
                    self.run_seed(request, session, serial, block, seed, failed)
                for name in request.passes:
                    widths = [w for w in request.pass_widths if w not in failed]
                    self.run_pass(name, session, op, block or serial, widths, request.seeds[0])
        except ROW_ERRORS as error:
            self.fail(error)
        spent = session.backend.compute_seconds - before
        self.say("done", compute_seconds=spent, peak_rss_bytes=system.peak_rss_bytes())

    @contextlib.contextmanager
    def evaluators(self, request: Request, session: Session, op: Op) -> Iterator[Any]:
        """The evaluator of the serial runs, and another for the blocks where a check has one."""
        widest = tokens(request)
        needed = op.bytes_needed(self.library, widest)
        free = session.backend.info.memory_free
        if free and needed > free:
            name = session.backend.info.name
            raise OutOfMemory(
                f"needs {needed / GIB:.1f} GiB, {name} has {free / GIB:.1f} GiB free: "
                "use a smaller case"
            )
        with contextlib.ExitStack() as stack:
            made = []
            for each in paired(request.check, op):
                evaluator = each.prepare(session, request.seeds[0], widest)
                stack.callback(evaluator.close)
                made.append(evaluator)
            yield made[0], made[1] if len(made) > 1 else None

    def run_seed(
        self,
        request: Request,
        session: Session,
        serial: Any,
        block: Any,
        seed: int,
        failed: set[int],
    ) -> None:
        """Load a seed's inputs and run the widths that are left for it; add those that fail."""
        done = {width for s, width in request.done if s == seed}
        widths = [width for width in request.widths if width not in done]
        if not widths:
            return
        self.say("begin", phase="inputs", seed=seed, width=None)
        for evaluator in filter(None, (serial, block)):
            evaluator.load(seed)

        def begin(width: int) -> None:
            phase = "serial" if width == 1 and block is None else "width"
            self.say("begin", phase=phase, seed=seed, width=width)

        def fail(width: int, error: Exception) -> None:
            failed.add(width)
            self.say("failed", seed=seed, width=width, **failure(error))

        before = session.backend.compute_seconds
        for outcome in probe.probe(
            serial.evaluate, serial.reference, widths, tokens(request),
            block=block.evaluate if block else None, begin=begin, failed=fail,
            row_errors=ROW_ERRORS,
        ):  # fmt: skip
            spent = session.backend.compute_seconds - before
            before = session.backend.compute_seconds
            fields = dataclasses.asdict(outcome)
            choices = session.choices(block or serial, outcome.width)
            self.say("outcome", seed=seed, outcome=fields, compute_seconds=spent, choices=choices)

    def run_pass(
        self, name: str, session: Session, op: Op, evaluator: Any, widths: list[int], seed: int
    ) -> None:
        """Measure something of every width, apart from the verdicts."""
        if not widths:
            return
        self.say("begin", phase=name, seed=seed, width=None)
        evaluator.load(seed)
        try:
            for width, data in passes.load(name)(session, op, evaluator, widths):
                self.say("measured", phase=name, width=width, data=data)
        except ROW_ERRORS as error:
            for width in widths:
                self.say("measured", phase=name, width=width, data={f"{name}_note": str(error)})


def serve(child: Child, fields: dict[str, Any]) -> None:
    """Run what a line asks for: a case, or a task on a model."""
    if "task" not in fields:
        child.run(Request(**fields))
        return
    # cases need no libllama
    models = importlib.import_module("ggmlprobe.worker.model_child")
    models.run(child, ModelRequest(fields["task"], model_spec(fields["model"]), fields["args"]))


def main() -> None:
    """Serve requests from stdin until it ends."""
    die_with_parent()
    out = quiet_start()
    start = json.loads(sys.stdin.readline())
    for name, value in start["restore"].items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    try:
        child = Child(Spec(**start["spec"]), out)
        child.say("ready", **child.describe())
        for line in sys.stdin:
            serve(child, json.loads(line))
    except ProbeError as error:
        refuse(out, error)
    # a traceback's status 1 would read as a crash of the library
    except Exception as error:
        refuse(out, internal(error))


if __name__ == "__main__":
    main()
