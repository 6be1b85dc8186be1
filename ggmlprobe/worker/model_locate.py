"""The child's task `locate`: where a block's bits part from those of single tokens, and replay."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ggmlprobe.codec import from_dict, to_dict
from ggmlprobe.compare import compare
from ggmlprobe.errors import ComputeFailed, OutOfMemory, Unsupported
from ggmlprobe.ggml.device import Backend, devices
from ggmlprobe.ggml.llama.model import Model
from ggmlprobe.model.graph import Seen, buffers_differ, shape, shapes_differ
from ggmlprobe.model.locate import Found, Trail
from ggmlprobe.model.located import Location, NodeDifference, Replay
from ggmlprobe.model.ops import home, op_of
from ggmlprobe.model.parting import Parting, Paths
from ggmlprobe.model.watch import WORDS, Eyes, Switch, parts
from ggmlprobe.ops.base import Session
from ggmlprobe.ops.replay import Array, Recorded, Replayer
from ggmlprobe.verdict import Verdict
from ggmlprobe.weights_file import Weight, WeightsFile
from ggmlprobe.worker.model_child import ModelSession
from ggmlprobe.worker.model_compare import open_context

# Kinds of culprits that are replayed.
REPLAYED = 8


def locate(session: ModelSession, args: dict[str, Any]) -> None:
    """Locate in one window: a `located` event.

    Args:
        session: of the child.
        args: `blank` (fields of the Location to make), `text` of the prompt, `context` (settings
            of ModelContext).
    """
    model = session.model()
    blank = from_dict(Location, args["blank"])
    text = model.chat(args["text"]) if blank.chat else args["text"]
    prompt = model.tokenize(text)
    parting, made = locate_in(session, model, prompt, blank, args["context"])
    extra = [buft for device in devices(session.child.library) for buft in device.bufts[1:]]
    session.say("located", data=to_dict(made), cases=cases(parting, made, extra))


def locate_in(
    session: ModelSession, model: Model, prompt: Sequence[int], blank: Location,
    settings: dict[str, Any], tamper: Eyes | None = None,
) -> tuple[Parting, Location]:  # fmt: skip
    """Locate where the block at blank.window parts from its single tokens.

    Args:
        tamper: a fault under test, which all contexts get; the plain one then has a callback too.

    Raises:
        Unsupported: no context with these settings.
    """
    room = len(prompt) + blank.window + blank.width
    switch, quiet = Switch(tamper), Switch(tamper)
    unwatched = {"callback": quiet} if tamper is not None else {}
    plain_context = open_context(session, model, room, settings | unwatched)

    def beat() -> None:
        session.begin("compute", width=blank.width)

    prefix, tokens = window_tokens(plain_context, prompt, blank.window, blank.width, beat)
    watched_context = open_context(session, model, room, settings | {"callback": switch})
    parting = Parting(
        Paths(plain_context, quiet, prefix, tokens, beat),
        Paths(watched_context, switch, prefix, tokens, beat),
    )
    trail = parting.compare_all()
    watched = "every node"
    if not (parting.unchanged_single and parting.unchanged_block):
        trail, watched = parting.compare_one_by_one(), "one node per run"
    blank = replace(blank, prompt_tokens=len(prompt), tokens=tokens, watched=watched)
    made = describe(parting, trail, blank)
    session.begin("replay", width=blank.width)
    done = replays(session, model, parting, trail, settings, watched)
    return parting, replace(made, replays=done)


def cases(parting: Parting, made: Location, bufts: Sequence[str]) -> list[dict[str, Any]]:
    """The op probe's cases of the replayed culprits: names in ops.OPS, parameters, buffer type.

    Args:
        bufts: buffer types that weights may lie in besides the device's own.
    """
    found = {}
    for each in made.replays:
        node = parting.traced.block[each.node]
        if (op := op_of(node)) is not None:
            buft = home(node.sources[0].buffer, bufts)
            params = dataclasses.asdict(cast(Any, op[1]))
            found[op[1].case(), buft] = {"op": op[0], "params": params, "buft": buft}
    return list(found.values())


def window_tokens(
    context: Any, prompt: Sequence[int], window: int, width: int, beat: Callable[[], None]
) -> tuple[list[int], list[int]]:
    """The prefix, and the block behind it: the prompt's last token and those the model writes."""
    tokens = list(prompt)
    context.clear()
    if tokens[:-1]:
        context.decode(tokens[:-1], 0, "none")
    for _ in range(window + width - 1):
        beat()
        logits = context.decode(tokens[-1:], len(tokens) - 1, "last")
        tokens.append(int(np.argmax(logits[0])))
    start = len(prompt) - 1 + window
    return tokens[:start], tokens[start : start + width]


def describe(parting: Parting, trail: Trail, blank: Location) -> Location:
    """The record of what was found."""
    traced = parting.traced
    single, block = parting.logits_single, parting.logits_block
    differing = [t for t in range(parting.width) if single[t].tobytes() != block[t].tobytes()]
    flips = [t for t in differing if np.argmax(single[t]) != np.argmax(block[t])]
    names = [traced.block[each.block].name for each in traced.matched]
    return replace(
        blank,
        verdict=str(Verdict.MISMATCH if differing or trail.found else Verdict.INVARIANT),
        unchanged_single=parting.unchanged_single, unchanged_block=parting.unchanged_block,
        nodes=len(traced.block),
        nodes_compared=sum(single is not None for single, _ in parting.hashed),
        unmatched=traced.unmatched, logits_differing=differing, flips=flips,
        found=[node_difference(parting, found) for found in trail.found],
        way=[names[place] for place in trail.way],
    )  # fmt: skip


def node_difference(parting: Parting, found: Found) -> NodeDifference:
    """A node that differs."""
    matched = parting.traced.matched[found.step]
    node = parting.traced.block[matched.block]
    alone = parting.traced.singles[0][matched.singles[0]]
    sources = [f"{s.name} {s.type} {shape(s.ne)} {s.buffer}" for s in node.sources]
    return NodeDifference(
        matched.block, node.layer, node.name, node.op, node.type, list(alone.ne), list(node.ne),
        node.buffer, sources, found.tokens, found.culprit, found.reaches,
    )  # fmt: skip


def kind(node: Seen) -> tuple[Any, ...]:
    """What culprits of one kind share: op, types, and sizes without the tokens."""
    return node.op, node.type, tuple((s.type, s.ne[:2]) for s in node.sources)


def chosen(parting: Parting, trail: Trail) -> list[int]:
    """Places of the culprits to replay: the first, where the way begins, one of each kind."""
    nodes = parting.traced.block
    of_kind: dict[tuple[Any, ...], int] = {}
    for found in trail.culprits:
        matched = parting.traced.matched[found.step]
        of_kind.setdefault(kind(nodes[matched.block]), found.step)
    places = [*[found.step for found in trail.culprits[:1]], *trail.way[:1], *of_kind.values()]
    return sorted(dict.fromkeys(places))[:REPLAYED]


def replays(
    session: ModelSession, model: Model, parting: Parting, trail: Trail,
    settings: dict[str, Any], watched: str,
) -> list[Replay]:  # fmt: skip
    """Replay one culprit of each kind."""
    places = chosen(parting, trail)
    if not places:
        return []
    weights = WeightsFile(model.path).weights
    made = []
    for place in places:
        node = parting.traced.block[parting.traced.matched[place].block]
        probe = probe_session(session, node, settings)
        replayer = Replayer(probe)
        try:
            made.append(one_replay(parting, place, replayer, weights, watched))
        except (Unsupported, OutOfMemory, ComputeFailed) as error:
            made.append(Replay(parting.traced.matched[place].block, None, None, None, str(error)))
        finally:
            replayer.close()
            probe.backend.free()
    return made


def probe_session(session: ModelSession, node: Seen, settings: dict[str, Any]) -> Session:
    """The device that a node ran on, with the threads of the contexts."""
    library = session.child.library
    there = devices(library)
    name = next((d.name for d in there if node.buffer in d.bufts), None)
    name = name or next(d.name for d in there if d.type == "CPU")
    backend = Backend(library, name)
    return Session(
        library, backend, session.child.pools, None, settings["threads"],
        settings["threads_batch"],
    )  # fmt: skip


def taker(weights: dict[str, Weight], bufts: Sequence[str]) -> Callable[[Any], Any]:
    """Looks at a node before and after; weights come from the file, as buffers may repack them."""

    def source(node: Any) -> Array:
        weight = weights.get(node.name)
        if weight is None or node.op != "NONE" or weight.type != node.type:
            return Array(node.name, node.type, node.ne, node.nb, node.get())
        data = np.ascontiguousarray(weight.data)
        place = home(node.buffer, bufts) or ""
        return Array(node.name, node.type, node.ne, node.nb, data, True, place)

    def before(node: Any) -> Callable[[Any], Recorded]:
        sources = [source(each) for each in node.sources]
        return lambda done: Recorded(
            done.op_id, done.op_params, done.type, done.ne, sources, done.get()
        )

    return before


def one_replay(
    parting: Parting, place: int, replayer: Replayer, weights: dict[str, Weight], watched: str
) -> Replay:
    """Compute a culprit by itself, for each token and for the block, from what they had."""
    matched = parting.traced.matched[place]
    node = parting.traced.block[matched.block]
    alone = parting.traced.singles[0][matched.singles[0]]
    if node.writes or matched.how is None or node.type not in WORDS:
        raise Unsupported("it writes into memory beyond the graph; not replayed")
    singles, block = parting.capture(place, taker(weights, replayer.session.backend.info.bufts))

    def tokens_of(out: np.ndarray, ne: tuple[int, ...], count: int) -> list[np.ndarray]:
        assert matched.how is not None
        data = out.view(WORDS[node.type]).reshape(ne[::-1])
        return [np.ascontiguousarray(part).ravel() for part in parts(data, matched.how, count)]

    recorded_single = [tokens_of(each.out, each.ne, 1)[0] for each in singles]
    recorded_block = tokens_of(block.out, block.ne, parting.width)
    single = [tokens_of(replayer.run(each, 1), each.ne, 1)[0] for each in singles]
    wide = tokens_of(replayer.run(block, parting.width), block.ne, parting.width)
    exact = bits(single) == bits(recorded_single) and bits(wide) == bits(recorded_block)
    columns = [t for t in range(parting.width) if bits(single[t : t + 1]) != bits(wide[t : t + 1])]
    shapes = shapes_differ(alone, node, parting.width)
    made = Replay(
        matched.block, bool(columns), exact,
        None if columns else cause(alone, node, shapes, watched),
        "; ".join(shapes) or None, columns, sum(part.size for part in wide),
        case=None if (op := op_of(node)) is None else op[1].case(),
    )  # fmt: skip
    if node.type != "f32":
        return made
    difference = compare(np.stack(single).view(np.float32), np.stack(wide).view(np.float32))
    return replace(
        made, elements_differing=difference.elements_differing, max_ulp=difference.max_ulp,
        max_abs=difference.max_abs,
    )  # fmt: skip


def bits(rows: Sequence[np.ndarray]) -> bytes:
    """All bytes of some arrays."""
    return b"".join(row.tobytes() for row in rows)


def cause(alone: Seen, node: Seen, shapes: Sequence[str], watched: str) -> str:
    """Why a node that differed in the model does not by itself."""
    if buffers_differ(alone, node):
        places = [", ".join([n.buffer, *(s.buffer for s in n.sources)]) for n in (alone, node)]
        return f"placement: {places[0]} alone, {places[1]} in the block"
    if shapes:
        return f"graph: {'; '.join(shapes)}"
    if alone.params != node.params:
        return "graph: other parameters of the op in the block"
    if watched != "every node":
        return "fusion: the model computes it together with its neighbours"
    return "graph: computed in its place it differs, by itself it does not"
