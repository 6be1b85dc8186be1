"""The parent's end of a child process: start, ask, wait, and say how it died."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ggmlprobe import endpoint, errors
from ggmlprobe.errors import InternalError, LibraryBroken, NoServer
from ggmlprobe.worker.oom import KillerWatch
from ggmlprobe.worker.protocol import Event, ModelRequest, Request, Spec

STDERR_LINES = 8
# ggml says which version a server has, then that it has given up
CONNECT_LINES = 2
START_SECONDS = 120.0
STOP_SECONDS = 2.0
DAMAGED = "a file of it is damaged; copy or build it anew"
VULKAN_DRIVER = "a Vulkan driver may be at fault: name another with VK_DRIVER_FILES"
BLAS_THREADS = "OPENBLAS_NUM_THREADS"
PACKAGE_PARENT = str(Path(__file__).resolve().parents[2])
OUT_OF_MEMORY = re.compile(
    r"out of (device )?memory|bad_alloc|insufficient memory|cannot allocate", re.I
)
# "ggml.c:4827: GGML_ASSERT(...) failed", as ggml_abort() writes it
ABORT = re.compile(r".*\.(?:c|h|m|cc|cpp|hpp|cu|cuh):\d+: ")


MAYBE_OOM = "killed, maybe by the kernel for memory: its count of that cannot be read here"


class Death(NamedTuple):
    """Verdict, signal name and detail of a child that ended."""

    verdict: str
    signal: str | None
    detail: str | None = None


def death_verdict(
    returncode: int, stderr_tail: list[str], oom_killed: bool | None = None
) -> Death:  # fmt: skip
    """How a child ended that ended by itself.

    SIGKILL is an out-of-memory where the kernel's killer has struck meanwhile (`oom_killed`; None
    where nobody can tell), an abort where the last words say so.
    """
    name = None
    if returncode < 0:
        name = signal.Signals(-returncode).name if -returncode in set(signal.Signals) else None
        name = name or f"signal {-returncode}"
    killed = name == "SIGKILL"
    if (killed and oom_killed) or any(OUT_OF_MEMORY.search(line) for line in stderr_tail):
        return Death("OOM", name)
    return Death("CRASH", name, MAYBE_OOM if killed and oom_killed is None else None)


def last_words(lines: Iterable[str]) -> list[str]:
    """The last lines, without the backtrace that follows upstream's GGML_ABORT."""
    kept = list(lines)
    aborts = [number for number, line in enumerate(kept, 1) if ABORT.match(line)]
    return kept[: aborts[-1] if aborts else None][-STDERR_LINES:]


class Worker:
    """A child for one Spec; replaced by `restart` after it died.

    Args:
        spec: library and environment.
        timeout: seconds without an event after which a request counts as hung.
    """

    def __init__(self, spec: Spec, timeout: float) -> None:
        self.spec, self.timeout = spec, timeout
        self._process: subprocess.Popen[str] | None = None
        self._busy = False
        self._hung = False
        self._patience = 0.0

    def launch(self) -> None:
        """Start the process without waiting for it to be ready."""
        env = dict(os.environ)
        before = {BLAS_THREADS: self.spec.env.get(BLAS_THREADS, env.get(BLAS_THREADS))}
        for name, value in self.spec.env.items():
            env.pop(name, None)
            if value is not None:
                env[name] = value
        # the child must run this very package, whatever lies in the current folder
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [PACKAGE_PARENT, env.get("PYTHONPATH")]))
        # numpy's BLAS threads would spin beside ggml's; the child puts the value back after import
        env[BLAS_THREADS] = "1"
        self._busy, self._hung, self._stderr_start = True, False, 0
        self._killer = KillerWatch()
        self._stderr = tempfile.TemporaryFile()
        self._events: queue.Queue[str | None] = queue.Queue()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "ggmlprobe.worker.child"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
            env=env, encoding="ascii", start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=self._read, args=(self._process, self._events), daemon=True).start()
        self._send({"spec": dataclasses.asdict(self.spec), "restore": before})

    @staticmethod
    def _read(process: subprocess.Popen[str], events: queue.Queue[str | None]) -> None:
        """Pump the child's lines into a queue, so that waiting can have a limit."""
        assert process.stdout is not None
        for line in process.stdout:
            events.put(line)
        events.put(None)

    def ready(self) -> Event:
        """Wait until the library is loaded and checked; its description.

        Raises:
            LibraryBroken: it cannot be used, with the child's own one-line reason.
            NoServer: its endpoint cannot.
        """
        if self._process is None:
            if self.spec.endpoint is not None:
                patience, self._patience = self._patience, 0.0
                endpoint.reach(self.spec.endpoint, patience)
            self.launch()
        event, step = self._next(START_SECONDS), ""
        while event is not None and event["event"] == "loading":
            step = event["step"]
            event = self._next(START_SECONDS)
        if event is not None and event["event"] == "connecting":
            event = self._connected()
        if event is None:
            raise self._broken(step)
        if event["event"] == "refused":
            self.stop()
            other = {error.__name__: error for error in (NoServer, InternalError)}
            raise other.get(event["error"], LibraryBroken)(event["message"])
        self._busy = False
        return event

    def _broken(self, step: str) -> LibraryBroken:
        """The error of a library that ended the child, or held it, in a step of its loading."""
        death = self._death()
        ended = death.signal or death.verdict
        # SIGBUS is a page beyond the end of a mapped file
        last = DAMAGED if ended == "SIGBUS" else (self.stderr_tail() or ["no message"])[-1]
        self.stop()
        at = f" while {step}" if step else ""
        driver = f"; {VULKAN_DRIVER}" if "vulkan" in step else ""
        return LibraryBroken(f"loading the library ended in {ended}{at}: {last}{driver}")

    def _connected(self) -> Event:
        """The event after `connecting`, in which ggml greets the server.

        Raises:
            NoServer: ggml gave up, or the server does not answer.
        """
        server = self.spec.endpoint or ""
        event = self._next(endpoint.GREETING_SECONDS)
        if event is None:
            hung, words = self._hung, "; ".join(self.stderr_tail()[-CONNECT_LINES:])
            self.stop()
            if hung:
                raise endpoint.silent(server, endpoint.GREETING_SECONDS)
            raise endpoint.foreign(server, words)
        return event

    def run(self, request: Request | ModelRequest) -> Iterator[Event]:
        """Events of one request. The last one is `done`, or `died` with verdict, signal and stderr.

        A `died` event carries the phase, seed and width that were running. Where the server is
        gone there is only a `failed`, for every width.
        """
        try:
            if self._process is None:
                self.ready()
        except NoServer as error:
            yield {"event": "failed", "seed": None, "width": None,
                   "verdict": error.verdict, "detail": str(error)}  # fmt: skip
            return
        self._stderr_start = self._stderr.seek(0, os.SEEK_END)
        self._busy, self._killer = True, KillerWatch()
        self._send(dataclasses.asdict(request))
        at: Event = {"phase": "inputs", "seed": None, "width": None}
        while True:
            event = self._next(self.timeout)
            if event is None:
                death = self._death()
                where = {key: at[key] for key in ("phase", "seed", "width")}
                tail = self.stderr_tail()
                self.stop()
                # perhaps of its server's death: the next request gives that some time to come back
                self._patience = endpoint.RETURN_SECONDS
                yield {"event": "died", **death._asdict(), "stderr": tail, **where}
                return
            if event["event"] == "begin":
                at = event
            if event["event"] == "refused":
                self.stop()
                raise getattr(errors, event.get("error", "UsageError"))(event["message"])
            self._busy = event["event"] != "done"
            yield event
            if not self._busy:
                return

    def answer(self, go: bool) -> None:
        """Answer a `turn` event of a request with turns."""
        self._send({"go": go})

    def _send(self, data: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(data) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return  # it died; the reader says so

    def _next(self, seconds: float) -> Event | None:
        """The next event, or None where the child died or says nothing for too long."""
        try:
            line = self._events.get(timeout=seconds)
        except queue.Empty:
            self._hung = True
            return None
        if line is None:
            return None
        event: Event = json.loads(line)
        return event

    def _death(self) -> Death:
        assert self._process is not None
        if self._hung:
            return Death("TIMEOUT", None)
        returncode = self._process.wait()
        return death_verdict(returncode, self.stderr_tail(), self._killer.struck())

    def stderr_tail(self) -> list[str]:
        """The last lines the child wrote to stderr during this request."""
        self._stderr.seek(self._stderr_start)
        lines = self._stderr.read().decode(errors="replace").splitlines()
        return last_words(line for line in lines if line.strip())

    def stop(self) -> None:
        """End the process, at once where it is in the middle of something."""
        if self._process is None:
            return
        process, self._process = self._process, None
        if self._busy:
            process.kill()
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        try:
            process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._stderr.close()
