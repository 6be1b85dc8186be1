"""The child's task `graph`: what ops a model's decode graph is made of."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

from ggmlprobe.codec import to_dict
from ggmlprobe.model.located import GraphOp
from ggmlprobe.model.ops import Kind, kinds, real_twin
from ggmlprobe.model.watch import Switch, Watch
from ggmlprobe.ops.base import Op
from ggmlprobe.weights_file import weights_file
from ggmlprobe.worker.model_child import ModelSession
from ggmlprobe.worker.model_compare import open_context

BATCH = 512


def graph(session: ModelSession, args: dict[str, Any]) -> None:
    """Look at one decode: a `kind` event for each distinct op, type and shape.

    Args:
        session: of the child.
        args: `depth` (tokens decoded before), `context` (settings of ModelContext).
    """
    model = session.model()
    depth, switch = int(args["depth"]), Switch()
    settings = args["context"] | {"callback": switch}
    context = open_context(session, model, max(depth + 1, BATCH), settings)
    token = model.tokenize("a")[-1]
    for start in range(0, depth, BATCH):
        context.decode([token] * min(BATCH, depth - start), start, "none")
    switch.now = Watch()
    context.decode([token], depth, "last")
    path = str(model.path)
    for kind in kinds(switch.now.graph.nodes, weights_file(path).weights):
        session.say("kind", **described(kind, path))


def described(kind: Kind, path: str) -> dict[str, Any]:
    """A GraphOp, and the parameters of the cases that probe it."""
    name, random = kind.probe or ("", None)
    real = real_twin(kind, path)
    source = kind.first.sources[0].buffer if kind.first.sources else kind.first.buffer
    made = GraphOp(
        kind.op, kind.type, kind.shape, kind.count, kind.first.name, kind.weight, source,
        random.case() if random else None, real.case() if real else None,
    )  # fmt: skip
    cases = [params(op) for op in (random, real) if op]
    return {"data": to_dict(made), "op": name, "params": cases}


def params(op: Op) -> dict[str, Any]:
    """Fields of an op's dataclass."""
    return dataclasses.asdict(cast(Any, op))
