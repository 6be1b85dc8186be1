"""What parent and child say to each other: a JSON object a line, over the child's stdin/stdout."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]
"""Child to parent; `event` is one of the names below.

ready    library, types, devices, files that are loaded, symbols that an interposer does not come
         first with (once, after loading)
loading  step: what a death before ready is blamed on
connecting  before a server's devices are registered (once, before ready)
refused  message, error (a class of errors: the library, a setting or a file cannot be used)
begin    phase (inputs, serial, width, or a pass), seed, width: what a death is blamed on
outcome  seed, outcome (fields of probe.Outcome), compute_seconds, choices (fields of record.Result)
measured phase (the pass), width, data (fields of record.Result)
failed   seed, width (None: every width left), verdict, detail
turn     done, planned: rounds of timing; where the request has turns, the child now waits for a
         line {"go": whether to time another round}
done     compute_seconds, peak_rss_bytes
"""


@dataclass(frozen=True)
class Spec:
    """What a child process is for.

    Another library, environment or server needs another process.

    Attributes:
        lib: as given to --lib, None for the default search.
        env: variables to set (None: to take away) before the library is loaded.
        cache_dir: where quantized pools are kept, None for nowhere.
        interpose: shared libraries opened before libggml, whose functions take the place of its.
        endpoint: host:port of a ggml-rpc-server whose devices the library gets.
        kernels: the pass `kernels` may be asked for, so Vulkan is to label what it dispatches.
    """

    lib: str | None = None
    env: dict[str, str | None] = field(default_factory=dict)
    cache_dir: str | None = None
    interpose: list[str] = field(default_factory=list)
    endpoint: str | None = None
    kernels: bool = False


@dataclass(frozen=True)
class Request:
    """One case to run in one config.

    Attributes:
        op: name in ops.OPS. params: fields of its dataclass.
        tokens: how many there are, at least the widest width; None for just as many.
        done: (seed, width) pairs that need not be run, because they were or because they crash.
        check: name of a check, or None for width against width 1.
        fault: name of a planted fault (selftest), or None.
        passes: names in dispatch.passes.MODULES. pass_widths: the widths they cover.
        hot: the time pass keeps to one set of weights, which a cache may hold.
        turns: the time pass waits for the parent's word before each round.
    """

    op: str
    params: dict[str, Any]
    device: str | None
    buft: str | None
    threads: int
    threads_batch: int
    widths: list[int]
    seeds: list[int]
    done: list[tuple[int, int]] = field(default_factory=list)
    check: str | None = None
    fault: str | None = None
    passes: list[str] = field(default_factory=list)
    pass_widths: list[int] = field(default_factory=list)
    hot: bool = False
    tokens: int | None = None
    turns: bool = False


@dataclass(frozen=True)
class ModelSpec:
    """A model as a child loads it; the fields are those of ggml.llama.model.Model.

    Attributes:
        llama_h: header to use, None to look for the library's own.
    """

    path: str
    llama_h: str | None = None
    ngl: int = 0
    extra_bufts: bool = True
    devices: tuple[str, ...] | None = None
    vocab_only: bool = False


@dataclass(frozen=True)
class ModelRequest:
    """A task on a model. Its events are its own, besides begin, failed and done.

    Attributes:
        task: name in model_child.TASKS. args: what it takes, plain JSON.
    """

    task: str
    model: ModelSpec
    args: dict[str, Any] = field(default_factory=dict)


def model_spec(fields: dict[str, Any]) -> ModelSpec:
    """Return a ModelSpec from its JSON."""
    devices = fields["devices"]
    return ModelSpec(**fields | {"devices": None if devices is None else tuple(devices)})
