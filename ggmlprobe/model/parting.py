"""Single and block decode of the same tokens, node by node: where their bits part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ggmlprobe.model.graph import Cut, Graph, Seen, cut, pairs, states
from ggmlprobe.model.locate import Found, Step, Trail, first_differing, locate
from ggmlprobe.model.watch import Switch, Watch, hashes

Logits = NDArray[np.float32]


class Context(Protocol):
    """What is used of a ggml.llama.context.ModelContext."""

    def decode(self, tokens: Sequence[int], first_pos: int, logits: Any = ...) -> Logits:
        """Evaluate tokens as one batch."""

    def clear(self) -> None:
        """Forget everything."""

    def rollback(self, pos: int) -> bool:
        """Forget the tokens from a position on, where that can be."""

    def save(self) -> bytes:
        """Return the memory."""

    def restore(self, state: bytes) -> None:
        """Put it back."""


class Paths:
    """A context that decodes tokens behind a prefix, one by one or as a block, again and again.

    Attributes:
        keeps: the memory is rolled back, so that cells a token does not see hold the same bytes on
            both paths, if the block is run before the singles.
    """

    def __init__(
        self, context: Context, switch: Switch, prefix: Sequence[int], tokens: Sequence[int],
        beat: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """Prefill the prefix as one batch.

        Args:
            switch: the context's callback.
            beat: called before each decode: a sign of life.
        """
        self._context, self._switch, self._beat = context, switch, beat
        self._start, self.tokens = len(prefix), list(tokens)
        context.clear()
        if prefix:
            context.decode(list(prefix), 0, "none")
        self._saved = context.save() if prefix else b""
        self.keeps = True

    def _begin(self) -> None:
        if self._start and self._context.rollback(self._start):
            return
        self.keeps = False
        if self._start:
            self._context.restore(self._saved)
        else:
            self._context.clear()

    def block(self, watch: Watch | None = None) -> Logits:
        """Decode all tokens as one batch; their logits [W, n_vocab]."""
        self._begin()
        return self._decode(self.tokens, self._start, watch)

    def singles(self, watches: Sequence[Watch | None] | None = None) -> Logits:
        """Decode the tokens one by one; their logits [W, n_vocab]."""
        self._begin()
        watches = watches or [None] * len(self.tokens)
        rows = [
            self._decode([token], self._start + j, watch)
            for j, (token, watch) in enumerate(zip(self.tokens, watches, strict=True))
        ]
        return np.concatenate(rows)

    def _decode(self, tokens: Sequence[int], pos: int, watch: Watch | None) -> Logits:
        self._beat()
        self._switch.now = watch
        try:
            return self._context.decode(tokens, pos, "all")
        finally:
            self._switch.now = None


@dataclass(frozen=True)
class Matched:
    """A node of the block's graph with its twins.

    Attributes:
        block: index there. singles: index in the graph of each single run.
        how: how tokens are cut out of it, None where they cannot be told.
    """

    block: int
    singles: tuple[int, ...]
    how: Cut | None


@dataclass
class Traced:
    """The graphs of both paths.

    Attributes:
        block: nodes of the block's graph. singles: those of each token's.
        matched: in the order of the block's graph.
    """

    block: list[Seen]
    singles: list[list[Seen]]
    matched: list[Matched] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Match the nodes."""
        maps = [{b: a for a, b in pairs(single, self.block)} for single in self.singles]
        width = len(self.singles)
        for index, node in enumerate(self.block):
            if all(index in each for each in maps):
                places = tuple(each[index] for each in maps)
                sizes = [single[i].ne for single, i in zip(self.singles, places, strict=True)]
                self.matched.append(Matched(index, places, cut(sizes, node.ne, width)))

    @property
    def unmatched(self) -> list[str]:
        """Names of nodes that one graph has and another has not."""
        ours = {each.block for each in self.matched}
        names = [node.name for i, node in enumerate(self.block) if i not in ours]
        for j, single in enumerate(self.singles):
            there = {each.singles[j] for each in self.matched}
            names += [node.name for i, node in enumerate(single) if i not in there]
        return list(dict.fromkeys(names))


def trace(paths: Paths) -> Traced:
    """Take both graphs down without stopping at any node."""
    block, singles = Watch(), [Watch() for _ in paths.tokens]
    paths.block(block)
    paths.singles(singles)
    return Traced(block.graph.nodes, [each.graph.nodes for each in singles])


class Parting:
    """Compares both paths of a context node by node.

    Attributes:
        traced: the graphs.
        hashed: for each matched node, the hashes of (single, block) per token.
    """

    def __init__(self, plain: Paths, watched: Paths) -> None:
        """Trace the graphs.

        Args:
            plain: its context has no callback. watched: its context has.
        """
        self.plain, self.watched = plain, watched
        self.width = len(plain.tokens)
        self.traced = trace(watched)
        self.logits_block, self.logits_single = plain.block(), plain.singles()
        self.hashed: list[tuple[tuple[str, ...] | None, tuple[str, ...] | None]] = []
        self.unchanged_block = self.unchanged_single = True

    def compare_all(self) -> Trail:
        """Stop at every node; `unchanged_...` then say whether that changed the logits."""
        places = range(len(self.traced.matched))
        single, block, logits = self._hash(places)
        self.unchanged_single = _same(logits[0], self.logits_single)
        self.unchanged_block = _same(logits[1], self.logits_block)
        self.hashed = [(single[place], block[place]) for place in places]
        return locate(self.steps(), self.width)

    def compare_one_by_one(self) -> Trail:
        """Stop at one node per run, and bisect for the first that differs."""
        places = [p for p, each in enumerate(self.traced.matched) if self._tells(p)]
        self.hashed = [(None, None)] * len(self.traced.matched)

        def differs(which: int) -> bool | None:
            place = places[which]
            single, block, logits = self._hash([place])
            if not (_same(logits[0], self.logits_single) and _same(logits[1], self.logits_block)):
                return None
            self.hashed[place] = single[place], block[place]
            return single[place] != block[place]

        first = first_differing(len(places), differs)
        if first is None:
            return Trail([], [])
        place = places[first]
        single, block = self.hashed[place]
        tokens = [t for t in range(self.width) if single and block and single[t] != block[t]]
        return Trail([Found(place, tokens, tokens, True)], [])

    def _tells(self, place: int) -> bool:
        each = self.traced.matched[place]
        node = self.traced.block[each.block]
        hidden = not self.watched.keeps and self._sees_hidden(node)
        return not node.is_view and each.how is not None and not hidden

    def _sees_hidden(self, node: Seen) -> bool:
        """Whether it has values for cells that a token does not see, which differ by themselves."""
        written = set(states(self.traced.block))
        return node.kind == "MUL_MAT" and any(source.state in written for source in node.sources)

    def _hash(
        self, places: Sequence[int]
    ) -> tuple[
        dict[int, tuple[str, ...] | None], dict[int, tuple[str, ...] | None], tuple[Logits, Logits]
    ]:
        """Hashes of some matched nodes: (single, block) by place, and the logits of both."""
        matched = self.traced.matched
        chosen = [place for place in places if self._tells(place)]
        block: dict[int, tuple[str, ...] | None] = dict.fromkeys(places)
        parts: dict[int, list[str]] = {place: [] for place in chosen}
        whole: dict[int, list[str]] = {place: [] for place in chosen}

        def keep(
            into: dict[int, list[str]], at: dict[int, int], nodes: list[Seen], tokens: int,
            index: int, node: Any,
        ) -> None:  # fmt: skip
            made = hashes(node, nodes[index], matched[at[index]].how, tokens)
            into[at[index]].extend(made or [])

        at = {matched[place].block: place for place in chosen}
        graph = self.traced.block
        watch = Watch(at.__contains__, after=partial(keep, whole, at, graph, self.width))
        logits_block = self.watched.block(watch)
        watches: list[Watch | None] = []
        for j, graph in enumerate(self.traced.singles):
            at = {matched[place].singles[j]: place for place in chosen}
            watches.append(Watch(at.__contains__, after=partial(keep, parts, at, graph, 1)))
        logits_single = self.watched.singles(watches)
        single: dict[int, tuple[str, ...] | None] = dict.fromkeys(places)
        for place in chosen:
            if len(whole[place]) == len(parts[place]) == self.width:
                single[place], block[place] = tuple(parts[place]), tuple(whole[place])
        return single, block, (logits_single, logits_block)

    def steps(self) -> list[Step]:
        """The matched nodes as the pure algorithm takes them."""
        written = set(states(self.traced.block))
        place_of = {each.block: place for place, each in enumerate(self.traced.matched)}
        made = []
        for each, (single, block) in zip(self.traced.matched, self.hashed, strict=True):
            node = self.traced.block[each.block]
            inputs = [place_of[s.node] for s in node.sources if s.node in place_of]
            reads = [s.state for s in node.sources if s.node is None and s.state in written]
            made.append(Step(node.name, tuple(inputs), tuple(reads), node.writes, single, block))
        return made

    def capture(self, place: int, take: Callable[[Any], Any]) -> tuple[list[Any], Any]:
        """Look at a node before and after it is computed.

        Args:
            take: called with the node before, its sources in place; what it returns is called
                with the node after, and its result kept.

        Returns:
            What was kept of each single run, and of the block.
        """
        each = self.traced.matched[place]

        def watch(index: int, kept: list[Any]) -> Watch:
            pending: list[Any] = []

            def before(at: int, node: Any) -> None:
                if at == index:
                    pending.append(take(node))

            def after(at: int, node: Any) -> None:
                if at == index:
                    kept.append(pending.pop()(node))

            # the one before is stopped at too, or its result would not be there yet
            return Watch(lambda at: at in (index, index - 1), before, after)

        block: list[Any] = []
        singles: list[list[Any]] = [[] for _ in range(self.width)]
        self.watched.block(watch(each.block, block))
        self.watched.singles(
            [watch(i, kept) for i, kept in zip(each.singles, singles, strict=True)]
        )
        return [kept[0] for kept in singles], block[0]


def _same(a: Logits, b: Logits) -> bool:
    return a.tobytes() == b.tobytes()


__all__ = ["Graph", "Matched", "Parting", "Paths", "Traced", "trace"]
