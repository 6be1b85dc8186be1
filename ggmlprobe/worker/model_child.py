"""The child's work on models: load them once, run a task on them, tell its events."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ggmlprobe import system
from ggmlprobe.errors import ComputeFailed, OutOfMemory, Unsupported
from ggmlprobe.ggml.llama.context import ModelContext
from ggmlprobe.ggml.llama.library import Llama
from ggmlprobe.ggml.llama.model import Model
from ggmlprobe.worker.protocol import ModelRequest, ModelSpec

if TYPE_CHECKING:
    from ggmlprobe.worker.child import Child

Task = Callable[["ModelSession", dict[str, Any]], None]
"""(session, args) to events."""

TASKS = {
    "compare": "ggmlprobe.worker.model_compare",
    "describe": "ggmlprobe.worker.model_child",
    "graph": "ggmlprobe.worker.model_graph",
    "locate": "ggmlprobe.worker.model_locate",
    "speculate": "ggmlprobe.worker.model_speculate",
    "nodes": "ggmlprobe.worker.model_nodes",
}
"""Task name to the module whose function of that name runs it."""

# A target and a draft.
KEPT = 2
HEARTBEAT_SECONDS = 1.0


class ModelSession:
    """What a task works with.

    Attributes:
        child: whose library it is.
        spec: the model the request is about.
        models: those that stay in memory for the next request, oldest first.
        contexts: those of the request. told: when begin() was last called.
    """

    def __init__(self, child: Child) -> None:
        """Start without a model."""
        self.child = child
        self.spec: ModelSpec
        self.models: dict[ModelSpec, Model] = {}
        self.contexts: list[ModelContext] = []
        self.told = 0.0

    def say(self, event: str, **fields: Any) -> None:
        """Send an event; its names are the task's own."""
        self.child.say(event, **fields)

    def begin(self, phase: str, *, width: int | None = None) -> None:
        """Say what a death from now on is blamed on."""
        self.told = time.monotonic()
        self.say("begin", phase=phase, seed=None, width=width)

    def model(self, spec: ModelSpec | None = None) -> Model:
        """Return a model, loaded if it is not there: the request's own, or another.

        Raises:
            ModelBroken: the file cannot be loaded.
            HeaderRefused: no llama.h, or not this library's.
        """
        spec = spec or self.spec
        if spec not in self.models:
            self.begin("load")
            header = Path(spec.llama_h) if spec.llama_h else None
            llama = Llama.load(self.child.library, header)
            while len(self.models) >= KEPT:
                self.models.pop(next(iter(self.models))).close()
            self.models[spec] = Model(
                llama, spec.path, ngl=spec.ngl, extra_bufts=spec.extra_bufts,
                devices=spec.devices, vocab_only=spec.vocab_only, progress=self.still_loading,
            )  # fmt: skip
            self.begin("compute")
        return self.models[spec]

    def still_loading(self, share: float) -> None:
        """Let the parent know now and then that a large file does not hang."""
        if time.monotonic() - self.told > HEARTBEAT_SECONDS:
            self.begin("load")

    def context(self, model: Model, **settings: Any) -> ModelContext:
        """Return a new context that is closed with the request; settings are ModelContext's."""
        self.begin("context")
        made = ModelContext(model, **settings)
        self.contexts.append(made)
        self.begin("compute")
        return made

    def end(self) -> float:
        """Close the contexts; return the seconds they computed."""
        spent = sum(context.compute_seconds for context in self.contexts)
        while self.contexts:
            self.contexts.pop().close()
        return spent


def describe(session: ModelSession, args: dict[str, Any]) -> None:
    """Say what a model is: one `model` event; with args["context"], once it has had a context."""
    model = session.model()
    if args.get("context"):
        session.context(model, n_ctx=1)
    session.say(
        "model", desc=model.desc, n_vocab=model.n_vocab, n_ctx_train=model.n_ctx_train,
        n_layer=model.n_layer, size_bytes=model.size_bytes, swa=model.swa,
        is_recurrent=model.is_recurrent, is_hybrid=model.is_hybrid,
        architecture=model.meta("general.architecture"), name=model.meta("general.name"),
    )  # fmt: skip


def run(child: Child, request: ModelRequest) -> None:
    """Run a task: its events, then `done`."""
    if child.models is None:
        child.models = ModelSession(child)
    session: ModelSession = child.models
    session.spec = request.model
    task: Task = getattr(import_module(TASKS[request.task]), request.task)
    try:
        task(session, request.args)
    except (Unsupported, OutOfMemory, MemoryError, ComputeFailed) as error:
        child.fail(error)
    finally:
        spent = session.end()
    session.say("done", compute_seconds=spent, peak_rss_bytes=system.peak_rss_bytes())
