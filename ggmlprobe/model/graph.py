"""Graphs as an evaluation callback shows them: nodes on record, matched between two widths.

Plain data: a node of ggml.llama.node is looked at once, nothing here needs a library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

# These compute nothing: their values are those of what they look at.
VIEWS = frozenset({"VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"})
# These write into memory that outlives the graph, such as a KV cache.
WRITERS = frozenset({"SET_ROWS", "CPY", "SET"})
LEAF = "NONE"
FLOATS = frozenset({"f32", "f16", "bf16"})
# ggml numbers what has no name by its place, which may move; a scheduler's copy carries its owner.
_NUMBERED = re.compile(r"^(node|leaf)_\d+\b")
_COPY = re.compile(r"^[^#]+#(.+)#\d+$")
_LAYER = re.compile(r"(?:^blk\.|-|_l)(\d+)(?=$|[ .])")


@dataclass(frozen=True)
class Source:
    """What a node is computed from.

    Attributes:
        node: its index in the graph, None for a weight, an input or a cache.
        ne: sizes, fastest first. nb: strides in bytes.
        buffer: where it lies.
        state: the leaf that it is, or is a view of; "" for a node's own memory.
    """

    node: int | None
    name: str
    type: str
    ne: tuple[int, ...]
    nb: tuple[int, ...]
    buffer: str
    state: str


@dataclass(frozen=True)
class Seen:
    """A node of a graph.

    Attributes:
        op: in ggml's words, such as "MUL_MAT" or "SWIGLU". kind: the op itself, such as "GLU".
        params: the op's parameters, 64 bytes.
        state: the leaf that it is a view of, "" where it has memory of its own.
    """

    name: str
    op: str
    kind: str
    type: str
    ne: tuple[int, ...]
    nb: tuple[int, ...]
    buffer: str
    params: bytes
    state: str
    sources: tuple[Source, ...]

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is matched by."""
        return _NUMBERED.sub(r"\1", self.name), self.op, self.type

    @property
    def layer(self) -> int | None:
        """The layer in its name, or in a weight's."""
        for name in (self.name, *(source.name for source in self.sources)):
            if found := _LAYER.search(name):
                return int(found[1])
        return None

    @property
    def is_view(self) -> bool:
        """Whether it computes nothing."""
        return self.kind in VIEWS

    @property
    def writes(self) -> str:
        """The leaf that it writes to, "" if none."""
        return self.state if self.kind in WRITERS else ""


class Graph:
    """Collects the nodes of one graph in the order they are shown.

    Attributes:
        nodes: those shown so far.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.nodes: list[Seen] = []
        self._index: dict[int, int] = {}
        self._leaves: dict[int, str] = {}

    def add(self, node: Any) -> int:
        """Take a ggml.llama.node.Node; return its index."""
        sources = tuple(self._source(source) for source in node.sources)
        base = node.view_of
        state = self._leaf(base) if base is not None else ""
        seen = Seen(
            node.name, node.op_desc, node.op, node.type, node.ne, node.nb, node.buffer,
            node.op_params, state, sources,
        )  # fmt: skip
        self.nodes.append(seen)
        self._index[_address(node)] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def _source(self, node: Any) -> Source:
        base = node.view_of
        state = self._leaf(node if base is None else base)
        name = _original(node.name)
        index = self._index.get(_address(node))
        if index is None and name != node.name:
            index = self._last(name)
        return Source(index, name, node.type, node.ne, node.nb, node.buffer, state)

    def _leaf(self, node: Any) -> str:
        """The name of a tensor that no node of the graph computes, "" for another."""
        return "" if _address(node) in self._index or node.op != LEAF else _original(node.name)

    def _last(self, name: str) -> int | None:
        for index in range(len(self.nodes) - 1, -1, -1):
            if self.nodes[index].name == name:
                return index
        return None


def _address(node: Any) -> int:
    return int(node.address)


def _original(name: str) -> str:
    """Name of what a scheduler has copied to another device."""
    found = _COPY.match(name)
    return found[1] if found else name


def pairs(single: Sequence[Seen], block: Sequence[Seen]) -> list[tuple[int, int]]:
    """Indices of the same node in both graphs, by name, op and type, in order."""
    a, b = [node.key for node in single], [node.key for node in block]
    if a == b:
        return [(i, i) for i in range(len(a))]
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    return [
        (start_a + i, start_b + i)
        for start_a, start_b, size in matcher.get_matching_blocks()
        for i in range(size)
    ]


@dataclass(frozen=True)
class Cut:
    """How a token is cut out of a node.

    Attributes:
        axis: the dimension tokens lie in, None where the node has none.
        each: values of that dimension that belong to one token.
        ne: sizes that both graphs share, where n_kv is not the same; the token's is that of one.
    """

    axis: int | None
    each: int
    ne: tuple[int, ...]


def cut(singles: Sequence[Sequence[int]], block: Sequence[int], width: int) -> Cut | None:
    """Find the tokens of a node by its sizes.

    Args:
        singles: sizes in the graphs of one token. block: in that of all. width: tokens there.

    Returns:
        None where tokens cannot be told: no dimension grows with them, yet sizes are not equal.
    """
    shared = tuple(min(sizes) for sizes in zip(*singles, block, strict=True))
    one = singles[0]
    grown = [d for d in range(len(block)) if block[d] == width * one[d] and width > 1]
    fixed = [d for d in grown if all(single[d] == one[d] for single in singles)]
    if not fixed:
        return Cut(None, 0, shared) if all(tuple(s) == tuple(block) for s in singles) else None
    axis = min(fixed, key=lambda d: (one[d] != 1, -d))
    return Cut(axis, one[axis], shared)


def buffers_differ(single: Seen, block: Seen) -> bool:
    """Whether the scheduler placed a node, or what it reads, in another buffer."""
    places = [[n.buffer, *(s.buffer for s in n.sources)] for n in (single, block)]
    return places[0] != places[1]


def shapes_differ(single: Seen, block: Seen, width: int) -> list[str]:
    """Sources whose sizes differ in more than the number of tokens, such as n_kv."""
    return [
        f"{a.name} {shape(a.ne)} alone, {shape(b.ne)} in the block"
        for a, b in zip(single.sources, block.sources, strict=False)
        if (c := cut([a.ne], b.ne, width)) is None or not _only_tokens(a.ne, b.ne, c)
    ]


def _only_tokens(a: Sequence[int], b: Sequence[int], c: Cut) -> bool:
    return all(a[d] == b[d] for d in range(len(a)) if d != c.axis)


def shape(ne: Sequence[int]) -> str:
    """Sizes as [576,5], without the ones at the end."""
    last = max((i for i, n in enumerate(ne) if n != 1), default=0)
    return f"[{','.join(map(str, ne[: last + 1]))}]"


def states(nodes: Sequence[Seen]) -> Iterator[str]:
    """The leaves that nodes of the graph write to."""
    return (node.writes for node in nodes if node.writes)
