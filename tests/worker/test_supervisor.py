"""The parent's end of a child: start, replace, wait no longer than asked, leave nothing behind."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ggmlprobe.errors import InternalError, LibraryBroken, UsageError
from ggmlprobe.ops.mul_mat import MulMat
from ggmlprobe.worker import oom
from ggmlprobe.worker.protocol import Event, Request, Spec
from ggmlprobe.worker.supervisor import (
    MAYBE_OOM,
    STDERR_LINES,
    Worker,
    death_verdict,
    last_words,
)

PARAMS = dataclasses.asdict(MulMat(type_a="f32", m=16, k=1))


def request(fault: str | None = None, widths: tuple[int, ...] = (1, 2, 3, 5)) -> Request:
    return Request(
        op="mul_mat", params=PARAMS, device="CPU", buft=None, threads=1, threads_batch=1,
        widths=list(widths), seeds=[1, 2], fault=fault,
    )  # fmt: skip


def pid_of(worker: Worker) -> int:
    assert worker._process is not None
    return worker._process.pid


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def names(events: list[Event]) -> list[str]:
    return [event["event"] for event in events]


Made = Callable[..., Worker]


@pytest.fixture
def made(lib_path: str) -> Iterator[Made]:
    """Workers that are stopped after the test."""
    workers: list[Worker] = []

    def make(spec: Spec | None = None, timeout: float = 60.0) -> Worker:
        workers.append(Worker(spec or Spec(lib_path), timeout))
        return workers[-1]

    yield make
    for worker in workers:
        worker.stop()


@pytest.mark.parametrize(
    ("returncode", "tail", "expected"),
    [
        (-signal.SIGABRT, ["GGML_ASSERT(x) failed"], ("CRASH", "SIGABRT")),
        (-signal.SIGSEGV, [], ("CRASH", "SIGSEGV")),
        (-signal.SIGABRT, ["terminate called: std::bad_alloc"], ("OOM", "SIGABRT")),
        (-signal.SIGABRT, ["CUDA error: out of memory"], ("OOM", "SIGABRT")),
        (-(signal.SIGRTMIN + 1), [], ("CRASH", f"signal {signal.SIGRTMIN + 1}")),
        (3, ["Traceback"], ("CRASH", None)),
    ],
)
def test_death_verdict(returncode: int, tail: list[str], expected: tuple[str, str | None]) -> None:
    assert death_verdict(returncode, tail, False) == (*expected, None)


def test_last_words_are_those_before_a_backtrace() -> None:
    said = "/home/me/ggml/src/ggml.c:4827: GGML_ASSERT(mask->ne[1] >= 64) failed"
    frames = [f"#{number} 0x0000560694d8308{number} in _start ()" for number in range(9)]
    debugger = ["warning: 44 ./nptl/x.c: No such file", *frames, "[Inferior 1 detached]"]
    assert last_words(["loading", said, *debugger]) == ["loading", said]
    assert last_words(debugger) == debugger[-STDERR_LINES:]
    assert last_words([]) == []


@pytest.mark.parametrize(
    ("oom_killed", "expected"),
    [
        (True, ("OOM", "SIGKILL", None)),
        (False, ("CRASH", "SIGKILL", None)),
        (None, ("CRASH", "SIGKILL", MAYBE_OOM)),
    ],
)
def test_a_kill_is_for_memory_only_where_the_kernel_says_so(
    oom_killed: bool | None, expected: tuple[str, str, str | None]
) -> None:
    assert death_verdict(-signal.SIGKILL, [], oom_killed) == expected


@pytest.mark.parametrize("counts", [(3, 3), (3, 4), (None, None)])
def test_killed_child(
    made: Made, monkeypatch: pytest.MonkeyPatch, counts: tuple[int | None, int | None]
) -> None:
    worker = made()
    worker.ready()
    before, after = counts
    given = iter([before, after])
    monkeypatch.setattr(oom, "kills", lambda: next(given))
    died = list(worker.run(request("kill")))[-1]
    assert died["verdict"] == ("OOM" if after == 4 else "CRASH")
    assert (died["signal"], died["width"]) == ("SIGKILL", 3)
    assert died["detail"] == (MAYBE_OOM if after is None else None)


def test_a_file_that_ends_too_soon_is_called_damaged(tmp_path: Path) -> None:
    # a constructor that touches a page beyond the end of a file, as a cut library's does
    source, library, short = tmp_path / "cut.c", tmp_path / "libggml.so", tmp_path / "short"
    short.write_bytes(b"")
    source.write_text(
        "#include <fcntl.h>\n#include <sys/mman.h>\n"
        "__attribute__((constructor)) static void touch(void) {\n"
        f'    int fd = open("{short}", O_RDONLY);\n'
        "    volatile char * p = mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0);\n"
        "    (void) *p;\n}\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    worker = Worker(Spec(str(library)), 60.0)
    with pytest.raises(LibraryBroken, match="ended in SIGBUS: a file of it is damaged; copy or"):
        worker.ready()


def test_events_of_a_case(made: Made) -> None:
    worker = made()
    ready = worker.ready()
    assert ready["event"] == "ready"
    f32 = {"id": 0, "blck_size": 1, "type_size": 4, "quantized": False}
    assert ready["types"]["f32"] == f32
    events = list(worker.run(request()))
    assert names(events).count("outcome") == 2 * 4
    assert names(events)[-1] == "done"
    assert "died" not in names(events)
    begun = [(e["phase"], e["seed"], e["width"]) for e in events if e["event"] == "begin"]
    assert begun[0] == ("inputs", 1, None)
    assert begun[2:6] == [("serial", 1, 1), ("width", 1, 2), ("width", 1, 3), ("width", 1, 5)]


def test_child_lives_on_from_case_to_case_and_is_replaced_when_it_dies(made: Made) -> None:
    worker = made()
    worker.ready()
    first = pid_of(worker)
    list(worker.run(request()))
    assert pid_of(worker) == first
    died = list(worker.run(request("abort")))[-1]
    assert gone(first)
    assert (died["event"], died["verdict"], died["signal"]) == ("died", "CRASH", "SIGABRT")
    assert (died["phase"], died["seed"], died["width"]) == ("width", 1, 3)
    assert names(list(worker.run(request())))[-1] == "done"
    assert pid_of(worker) != first


def test_child_killed_between_two_cases_is_noticed(made: Made) -> None:
    worker = made()
    worker.ready()
    os.kill(pid_of(worker), signal.SIGKILL)
    time.sleep(0.2)
    assert names(list(worker.run(request()))) == ["died"]
    assert names(list(worker.run(request())))[-1] == "done"


def test_hang_ends_after_the_timeout(made: Made) -> None:
    worker = made(timeout=1.0)
    worker.ready()
    child, began = pid_of(worker), time.monotonic()
    died = list(worker.run(request("hang")))[-1]
    assert 0.9 < time.monotonic() - began < 10
    assert (died["verdict"], died["signal"], died["width"]) == ("TIMEOUT", None, 3)
    assert gone(child)


def test_stop_in_the_middle_of_a_case_leaves_no_child(made: Made) -> None:
    worker = made()
    worker.ready()
    child, events = pid_of(worker), worker.run(request("hang"))
    while next(events).get("width") != 3:
        pass
    began = time.monotonic()
    worker.stop()
    assert gone(child)
    assert time.monotonic() - began < 1.5
    worker.stop()


def test_widths_that_are_done_are_not_run_again(made: Made) -> None:
    done = [(1, 2), (1, 3), (2, 2), (2, 3), (2, 5)]
    events = list(made().run(dataclasses.replace(request(), done=done)))
    ran = [(e["seed"], e["outcome"]["width"]) for e in events if e["event"] == "outcome"]
    assert ran == [(1, 1), (1, 5), (2, 1)]


def test_no_more_stderr_lines_than_kept(made: Made, planted: Path, lib_path: str) -> None:
    params = PARAMS | {"k": 8}
    spec = Spec(lib_path, {"PLANTED": "abort:2:2"}, None, [str(planted)])
    died = list(made(spec).run(dataclasses.replace(request(), params=params)))[-1]
    assert died["event"] == "died"
    assert 1 <= len(died["stderr"]) <= STDERR_LINES
    assert any("GGML_ASSERT" in line for line in died["stderr"])


def test_environment_of_the_spec_reaches_the_child(
    made: Made, lib_path: str, planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", "abort:2:2")
    asked = dataclasses.replace(request(), params=PARAMS | {"k": 8})
    inherits = Spec(lib_path, {}, None, [str(planted)])
    assert names(list(made(inherits).run(asked)))[-1] == "died"
    without = dataclasses.replace(inherits, env={"PLANTED": None})
    assert names(list(made(without).run(asked)))[-1] == "done"


@pytest.mark.parametrize("content", [None, b"", b"no library"])
def test_interposer_that_cannot_be_opened(
    made: Made, lib_path: str, tmp_path: Path, content: bytes | None
) -> None:
    library = tmp_path / "planted.so"
    if content is not None:
        library.write_bytes(content)
    with pytest.raises(LibraryBroken, match=r"planted\.so") as raised:
        made(Spec(lib_path, {}, None, [str(library)])).ready()
    assert "\n" not in str(raised.value)


def test_library_that_crashes_on_load_is_one_line(made: Made, lib_path: str, planted: Path) -> None:
    # the check on load multiplies 3 columns
    spec = Spec(lib_path, {"PLANTED": "abort:3:3"}, None, [str(planted)])
    with pytest.raises(LibraryBroken, match="SIGABRT while checking its sums: ") as raised:
        made(spec).ready()
    assert "\n" not in str(raised.value)
    assert "GGML_ASSERT" in str(raised.value)
    assert "Vulkan" not in str(raised.value)


def test_library_with_wrong_sums_is_refused(made: Made, lib_path: str, planted: Path) -> None:
    spec = Spec(lib_path, {"PLANTED": "wrong:3:3"}, None, [str(planted)])
    with pytest.raises(LibraryBroken, match="computes MUL_MAT f32 wrongly"):
        made(spec).ready()


def test_a_defect_in_the_child_is_no_crash_of_the_library(made: Made) -> None:
    planted = dataclasses.replace(request(), params={"no_such_parameter": 1})
    with pytest.raises(InternalError, match=r"internal error: TypeError: .*no_such_param.* at"):
        list(made().run(planted))


def test_unknown_fault_is_refused(made: Made) -> None:
    with pytest.raises(UsageError, match="no fault nonsense: there are"):
        list(made().run(request("nonsense")))
