"""Hashes of tokens, whatever dimension they lie in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from ggmlprobe.compare import hash_token
from ggmlprobe.model.graph import Cut, Seen
from ggmlprobe.model.watch import Switch, Watch, hashes, kept


@dataclass
class Fake:
    """A node as ggml.llama.node shows it."""

    name: str
    data: np.ndarray
    op: str = "MUL_MAT"
    type: str = "f32"
    sources: list[Fake] = field(default_factory=list)
    view_of: Fake | None = None
    buffer: str = "CPU"
    op_params: bytes = bytes(64)
    order: tuple[int, ...] = (0, 1, 2, 3)

    @property
    def address(self) -> int:
        """Something of its own."""
        return id(self)

    @property
    def op_desc(self) -> str:
        """The op itself."""
        return self.op

    @property
    def _seen(self) -> np.ndarray:
        return self.data.transpose([3 - axis for axis in reversed(self.order)])

    @property
    def ne(self) -> tuple[int, ...]:
        """Sizes, fastest first."""
        return self._seen.shape[::-1]

    @property
    def nb(self) -> tuple[int, ...]:
        """Strides, fastest first."""
        return self._seen.strides[::-1]

    def get(self) -> np.ndarray:
        """All bytes."""
        return np.frombuffer(self.data.tobytes(), np.uint8)


def seen(node: Fake) -> Seen:
    """The node on record."""
    watch = Watch()
    watch(node, True)
    return watch.graph.nodes[0]


VALUES = np.arange(2 * 5 * 7, dtype=np.float32)


def test_tokens_in_the_second_dimension() -> None:
    data = VALUES.reshape(1, 2, 5, 7)
    node = Fake("kq", data)
    made = hashes(node, seen(node), Cut(1, 1, (7, 1, 2, 1)), 5)
    assert made == [hash_token(data[:, :, t : t + 1]) for t in range(5)]


def test_a_token_is_the_same_in_a_block_and_alone() -> None:
    data = VALUES.reshape(1, 2, 5, 7)
    block, how = Fake("kq", data), Cut(1, 1, (7, 1, 2, 1))
    alone = Fake("kq", np.ascontiguousarray(data[:, :, 3:4]))
    assert hashes(alone, seen(alone), how, 1) == hashes(block, seen(block), how, 5)[3:4]


def test_a_permuted_view_is_read_by_its_strides() -> None:
    data = VALUES.reshape(1, 2, 5, 7)
    turned = Fake("q", data, order=(0, 2, 1, 3))
    assert turned.ne == (7, 2, 5, 1)
    made = hashes(turned, seen(turned), Cut(2, 1, (7, 2, 1, 1)), 5)
    assert made == [hash_token(np.ascontiguousarray(data[0, :, t])) for t in range(5)]


def test_cells_that_one_graph_lacks_are_left_out() -> None:
    wide = Fake("kq", VALUES.reshape(1, 2, 5, 7))
    narrow = Fake("kq", np.ascontiguousarray(wide.data[..., :4]))
    how = Cut(1, 1, (4, 1, 2, 1))
    assert hashes(wide, seen(wide), how, 5) == hashes(narrow, seen(narrow), how, 5)


def test_signs_of_zero_count() -> None:
    a, b = (Fake("x", np.full((1, 1, 1, 4), zero, np.float32)) for zero in (0.0, -0.0))
    how = Cut(1, 1, (4, 1, 1, 1))
    assert hashes(a, seen(a), how, 1) != hashes(b, seen(b), how, 1)


@pytest.mark.parametrize("rows", [[4, 0, 9], [1, 2, 3]])
def test_rows_written_to_a_cache(rows: list[int]) -> None:
    cache = np.arange(10 * 6, dtype=np.float32).reshape(1, 1, 10, 6)
    index = Fake("idxs", np.array(rows, np.int64).reshape(1, 1, 1, 3), type="i64")
    node = Fake("cache", cache, op="SET_ROWS", sources=[Fake("k", cache), index])
    made = hashes(node, seen(node), None, 3)
    as_bytes = cache.view(np.uint8).reshape(10, -1)
    assert made == [hash_token(as_bytes[[row]]) for row in rows]


def test_blocks_of_a_quantized_type_are_not_compared() -> None:
    node = Fake("x", VALUES.reshape(1, 2, 5, 7), type="q8_0")
    assert hashes(node, seen(node), Cut(1, 1, (7, 1, 2, 1)), 5) is None


def test_sources_can_be_read_where_the_node_before_is_stopped_at() -> None:
    wanted = kept([3, 7])
    assert [i for i in range(9) if wanted(i)] == [2, 3, 6, 7]


def test_a_switch_shows_a_fault_before_it_watches() -> None:
    order = []
    node = Fake("x", VALUES.reshape(1, 2, 5, 7))

    def tamper(node: Any, ask: bool) -> bool:
        order.append(("tamper", ask))
        return True

    switch = Switch(tamper)
    switch.now = Watch(lambda index: True, after=lambda index, node: order.append(("seen", index)))
    assert switch(node, True)
    assert switch(node, False)
    assert order == [("tamper", True), ("tamper", False), ("seen", 0)]
