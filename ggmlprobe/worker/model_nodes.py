"""The child's task `nodes`: the ops of a model that have no case, each at every width."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ggmlprobe import probe
from ggmlprobe.errors import ComputeFailed, OutOfMemory, Unsupported
from ggmlprobe.ggml.llama.model import Model
from ggmlprobe.model.graph import Seen
from ggmlprobe.model.inplace import Filled, Tokens, evaluator, why_not
from ggmlprobe.model.ops import Kind, kinds
from ggmlprobe.model.parting import Paths
from ggmlprobe.model.watch import Switch, Watch, kept
from ggmlprobe.ops.base import Session
from ggmlprobe.ops.replay import Array, Recorded, Replayer
from ggmlprobe.weights_file import weights_file
from ggmlprobe.worker.model_child import ModelSession
from ggmlprobe.worker.model_compare import open_context
from ggmlprobe.worker.model_locate import probe_session, taker


def nodes(session: ModelSession, args: dict[str, Any]) -> None:
    """Probe them: an `outcome` event for each kind and width, `failed` where it cannot be.

    Args:
        session: of the child.
        args: `depth`, `context` as for the task graph; `widths`.
    """
    widths = sorted({1, *args["widths"]})
    widest = max(widths)
    model, switch = session.model(), Switch()
    settings = args["context"] | {"callback": switch}
    context = open_context(session, model, int(args["depth"]) + widest, settings)
    some = model.tokenize("The quick brown fox jumps over the lazy dog and the cat of my neighbour")
    prefix = [some[i % len(some)] for i in range(int(args["depth"]))]
    block = [some[(i + 1) % len(some)] for i in range(widest)]
    graphs = {}
    for width in widths:
        watch = Watch()
        session.begin("compute", width=width)
        Paths(context, switch, prefix, block[:width]).block(watch)
        graphs[width] = watch.graph.nodes
    found = chosen(graphs, model)
    paths = Paths(context, switch, prefix, block)
    for index, recorded in captured(paths, found, model).items():
        session.begin("replay")
        at = {width: graph[index] for width, graph in graphs.items()}
        tell = partial(session.say, "outcome", op=found[index].op, shape=found[index].shape)
        one(session, at, recorded, settings, tell)


def chosen(graphs: dict[int, list[Seen]], model: Model) -> dict[int, Kind]:
    """Index of the first node of each kind that has no case and can be probed."""
    alone = graphs[1]
    if any([n.key for n in graph] != [n.key for n in alone] for graph in graphs.values()):
        raise Unsupported("the graph has other nodes at other widths")
    weights = weights_file(str(model.path)).weights
    index = {id(node): i for i, node in enumerate(alone)}
    found = [kind for kind in kinds(alone, weights) if why_not(kind.first, alone) is None]
    return {index[id(kind.first)]: kind for kind in found}


def captured(paths: Paths, found: Iterable[int], model: Model) -> dict[int, Recorded]:
    """Those nodes as the widest block has computed them, in one run."""
    take = taker(weights_file(str(model.path)).weights, ())
    pending: dict[int, Any] = {}
    done: dict[int, Recorded] = {}
    wanted = set(found)

    def before(index: int, node: Any) -> None:
        if index in wanted:
            pending[index] = take(node)

    def after(index: int, node: Any) -> None:
        if index in wanted:
            done[index] = pending.pop(index)(node)

    paths.block(Watch(kept(sorted(wanted)), before, after))
    return done


def one(
    session: ModelSession, at: dict[int, Seen], recorded: Recorded, settings: dict[str, Any],
    tell: Callable[..., None],
) -> None:  # fmt: skip
    """Probe one node; `tell` is given what each width came to."""
    made = probe_session(session, at[1], settings)
    replayer = Replayer(made)
    widths = sorted(width for width in at if width > 1)
    try:
        run = evaluator(
            Tokens(at, [array.data for array in recorded.sources]),
            partial(compute, made, replayer, recorded),
        )

        def reference(token: int) -> tuple[np.ndarray, np.ndarray]:
            out = run(token, 1)[0].astype(np.float64)
            return out, np.abs(out)

        for outcome in probe.probe(run, reference, widths, max(at)):
            tell(outcome=dataclasses.asdict(outcome))
    except (Unsupported, OutOfMemory, ComputeFailed) as error:
        tell(outcome=None, detail=str(error))
    finally:
        replayer.close()
        made.backend.free()


def compute(
    session: Session, replayer: Replayer, recorded: Recorded, node: Seen, filled: list[Filled],
    width: int,
) -> np.ndarray:  # fmt: skip
    """Replay a node with other sources."""
    sources = [
        replace(array, ne=each.like.ne, nb=each.like.nb, data=each.data)
        if not array.weight
        else array
        for array, each in zip(recorded.sources, filled, strict=True)
    ]
    changed: list[Array] = sources
    return replayer.run(replace(recorded, ne=node.ne, params=node.params, sources=changed), width)
