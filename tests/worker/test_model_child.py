"""Requests about models: errors keep their class, deaths name the option that avoids them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ggmlprobe.errors import HeaderRefused, ModelBroken, UnknownDevice
from ggmlprobe.worker.model_client import ask, explain
from ggmlprobe.worker.protocol import Event, ModelRequest, ModelSpec, Request, Spec
from ggmlprobe.worker.supervisor import Worker

DEADLY = "#include <unistd.h>\nlong {function}(void) {{ {act}; return 0; }}"
# Functions of libggml that libllama calls while it loads a file, and for a context only.
LOADING, CONTEXT = "gguf_get_n_tensors", "ggml_backend_sched_new"


@pytest.fixture
def worker(lib_path: str, llama_h: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    monkeypatch.setenv("GGMLPROBE_LLAMA_H", str(llama_h))
    made = Worker(Spec(lib_path), 60.0)
    yield made
    made.stop()


def names(events: list[Event]) -> list[str]:
    return [event["event"] for event in events]


def test_a_model_stays_loaded(worker: Worker, smollm2: Path) -> None:
    request = ModelRequest("describe", ModelSpec(str(smollm2), extra_bufts=False))
    first, second = list(ask(worker, request)), list(ask(worker, request))
    assert names(first) == ["begin", "begin", "model", "done"]
    assert names(second) == ["model", "done"]
    assert first[2] == second[0]
    assert first[2]["architecture"] == "llama"
    assert first[-1]["peak_rss_bytes"] > 50e6


def test_a_case_beside_a_model(worker: Worker, smollm2: Path) -> None:
    case = Request(
        op="mul_mat", params={"type_a": "f32", "m": 16, "k": 32}, device="CPU", buft=None,
        threads=1, threads_batch=1, widths=[1, 2], seeds=[1],
    )  # fmt: skip
    model = ModelRequest("describe", ModelSpec(str(smollm2), vocab_only=True))
    assert "model" in names(list(ask(worker, model)))
    assert names(list(worker.run(case))).count("outcome") == 2
    assert names(list(ask(worker, model))) == ["model", "done"]


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"path": "no-such.gguf"}, ModelBroken, "no-such.gguf cannot be read"),
        ({"devices": ("GPU7",)}, UnknownDevice, "no device GPU7"),
        ({"llama_h": "no-such.h"}, HeaderRefused, "no llama.h at no-such.h"),
    ],
)
def test_an_error_keeps_its_class(
    worker: Worker, smollm2: Path, fields: dict[str, str], error: type[Exception], says: str
) -> None:
    bad = ModelSpec(**{"path": str(smollm2)} | fields)
    for _ in range(2):
        with pytest.raises(error, match=says):
            list(ask(worker, ModelRequest("describe", bad)))
    good = ModelRequest("describe", ModelSpec(str(smollm2), vocab_only=True))
    assert names(list(ask(worker, good)))[-1] == "done"


def test_a_header_of_another_version(
    foreign_libs: dict[str, Path], llama_h: Path, smollm2: Path
) -> None:
    worker = Worker(Spec(str(foreign_libs["plugins-0.9"])), 60.0)
    spec = ModelSpec(str(smollm2), llama_h=str(llama_h))
    try:
        with pytest.raises(HeaderRefused, match="not of this libllama's version"):
            list(ask(worker, ModelRequest("describe", spec)))
    finally:
        worker.stop()


@pytest.fixture
def deadly(
    lib_path: str, llama_h: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Worker]]:
    """Return a worker whose libggml does something else in one of its functions."""
    monkeypatch.setenv("GGMLPROBE_LLAMA_H", str(llama_h))
    made = []

    def build(function: str, act: str, timeout: float = 60.0) -> Worker:
        source, library = tmp_path / "deadly.c", tmp_path / "deadly.so"
        source.write_text(DEADLY.format(function=function, act=act))
        subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        made.append(Worker(Spec(lib_path, interpose=[str(library)]), timeout))
        made[-1].ready()
        return made[-1]

    yield build
    for worker in made:
        worker.stop()


@pytest.mark.parametrize(
    ("function", "act", "says"),
    [
        (LOADING, "__builtin_trap()", "SIGILL in phase load"),
        (CONTEXT, "__builtin_trap()", "SIGILL in phase context"),
        (LOADING, "for (;;) pause()", "TIMEOUT in phase load"),
    ],
)
def test_a_death_before_anything_is_computed(
    deadly: Callable[..., Worker], smollm2: Path, function: str, act: str, says: str
) -> None:
    worker = deadly(function, act, 5.0)
    request = ModelRequest("describe", ModelSpec(str(smollm2)), {"context": True})
    with pytest.raises(ModelBroken, match=says) as error:
        list(ask(worker, request))
    assert str(smollm2) in str(error.value)
    assert "\n" not in str(error.value)


def died(**fields: object) -> Event:
    """A death in the middle of a computation."""
    event = {"event": "died", "phase": "compute", "seed": None, "width": 5}
    return event | {"verdict": "CRASH", "signal": "SIGILL", "stderr": ["a", "last words"]} | fields


def test_what_a_death_means() -> None:
    default = ModelRequest("describe", ModelSpec("m.gguf"))
    plain = ModelRequest("describe", ModelSpec("m.gguf", extra_bufts=False))
    crash = explain(died(), default)
    assert crash.startswith("SIGILL in phase compute: last words; --no-extra-bufts")
    assert "extra" not in explain(died(), plain)
    hung = explain(died(verdict="TIMEOUT", signal=None, stderr=[]), default)
    assert hung == "TIMEOUT in phase compute; give more time with --timeout"
    assert "smaller" in explain(died(verdict="OOM", signal="SIGKILL"), default)


def test_a_death_while_computing_is_an_event(smollm2: Path) -> None:
    class Dies:
        def run(self, request: ModelRequest) -> Iterator[Event]:
            yield {"event": "begin", "phase": "compute"}
            yield died()

    events = list(ask(Dies(), ModelRequest("describe", ModelSpec(str(smollm2)))))  # type: ignore[arg-type]
    assert names(events) == ["begin", "died"]
    assert "--no-extra-bufts" in events[-1]["detail"]
