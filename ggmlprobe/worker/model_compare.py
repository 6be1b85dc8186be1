"""The child's task `compare`: one prompt, every width and prefix asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ggmlprobe.codec import from_dict, to_dict
from ggmlprobe.errors import Unsupported, UsageError
from ggmlprobe.ggml.llama.context import ModelContext
from ggmlprobe.ggml.llama.model import Model
from ggmlprobe.model.compare import Job
from ggmlprobe.model.compare import compare as compare_windows
from ggmlprobe.model.record import BlockComparison
from ggmlprobe.worker.model_child import ModelSession


def compare(session: ModelSession, args: dict[str, Any]) -> None:
    """Run one prompt: a `comparison` event for each (width, prefix).

    Args:
        session: of the child.
        args: `blank` (fields of the comparisons to make), `text` of the prompt, `todo` (pairs of
            width and prefix), `context` (settings of ModelContext), `near_tie`, `cells`.

    Raises:
        Unsupported: no context with these settings, or a template the library does not know.
    """
    model = session.model()
    blank = from_dict(BlockComparison, args["blank"])
    text = model.chat(args["text"]) if blank.chat else args["text"]
    tokens = model.tokenize(text)
    todo = [(int(width), str(prefix)) for width, prefix in args["todo"]]
    single = open_context(session, model, len(tokens) + blank.n, args["context"])
    two = any(prefix == "prefill" for _, prefix in todo)
    block = open_context(session, model, len(tokens) + blank.n, args["context"]) if two else single
    rollback = not (model.is_recurrent or model.is_hybrid or model.swa)
    job = Job(
        replace(blank, prompt_tokens=len(tokens)), tokens, todo, rollback, model.piece,
        args["near_tie"], args["cells"],
    )  # fmt: skip

    def begin(phase: str, window: int, width: int | None) -> None:
        session.say("begin", phase=phase, seed=None, width=width, window=window)

    for made in compare_windows(job, single, block, begin):
        session.say("comparison", data=to_dict(made))


def open_context(
    session: ModelSession, model: Model, tokens: int, settings: dict[str, Any]
) -> ModelContext:
    """A context that takes that many tokens as one batch.

    Raises:
        Unsupported: this model cannot run so; another setting of a sweep may.
    """
    try:
        return session.context(model, n_ctx=tokens, n_batch=tokens, **settings)
    except UsageError as error:
        raise Unsupported(str(error)) from error
