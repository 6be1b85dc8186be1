"""Nodes matched between two graphs, and tokens found by sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ggmlprobe.model.graph import Cut, Seen, Source, cut, pairs, shapes_differ

NODE = Seen("Qcur-3", "MUL_MAT", "MUL_MAT", "f32", (64, 1, 1, 1), (4, 256, 256, 256), "CPU",
            bytes(64), "", ())  # fmt: skip


@pytest.mark.parametrize(
    ("single", "block", "expected"),
    [
        ((576, 1, 1, 1), (576, 5, 1, 1), Cut(1, 1, (576, 1, 1, 1))),
        ((64, 9, 1, 1), (64, 9, 5, 1), Cut(2, 1, (64, 9, 1, 1))),
        ((256, 1, 9, 1), (256, 5, 9, 1), Cut(1, 1, (256, 1, 9, 1))),
        ((1, 192, 1, 1), (1, 960, 1, 1), Cut(1, 192, (1, 192, 1, 1))),
        ((1, 1, 1, 1), (5, 1, 1, 1), Cut(0, 1, (1, 1, 1, 1))),
        # a block that crosses a multiple of 256 cells
        ((256, 1, 9, 1), (512, 5, 9, 1), Cut(1, 1, (256, 1, 9, 1))),
        ((192, 512, 1, 1), (192, 512, 1, 1), Cut(None, 0, (192, 512, 1, 1))),
        ((64, 3, 1, 1), (64, 4, 1, 1), None),
    ],
)
def test_tokens_are_found(
    single: tuple[int, ...], block: tuple[int, ...], expected: Cut | None
) -> None:
    assert cut([single] * 5, block, 5) == expected


def test_a_cache_that_doubles_is_not_taken_for_tokens() -> None:
    assert cut([(256, 1, 9, 1)] * 2, (512, 2, 9, 1), 2) == Cut(1, 1, (256, 1, 9, 1))


def test_what_every_graph_has_of_the_cache_is_compared() -> None:
    singles = [(256, 1, 9, 1), (512, 1, 9, 1)]
    assert cut(singles, (512, 2, 9, 1), 2) == Cut(1, 1, (256, 1, 9, 1))


def test_equal_graphs_match_by_place() -> None:
    nodes = [NODE, NODE, replace(NODE, op="ROPE")]
    assert pairs(nodes, nodes) == [(0, 0), (1, 1), (2, 2)]


def test_numbers_in_place_of_names_do_not_matter() -> None:
    a, b = replace(NODE, name="node_31"), replace(NODE, name="node_33")
    assert pairs([a], [b]) == [(0, 0)]


def test_a_node_of_one_graph_only_is_left_out() -> None:
    extra = replace(NODE, name="extra", op="CONT")
    other = replace(NODE, name="Kcur-3")
    assert pairs([NODE, other], [NODE, extra, other]) == [(0, 0), (1, 2)]


@pytest.mark.parametrize(
    ("name", "layer"), [("Qcur-3", 3), ("cache_k_l12 (view)", 12), ("node_21", None)]
)
def test_layer_is_in_the_name(name: str, layer: int | None) -> None:
    assert replace(NODE, name=name).layer == layer


def test_layer_is_in_the_weights_name() -> None:
    weight = Source(None, "blk.7.attn_output.weight", "q4_K", (64, 64, 1, 1), (1,) * 4, "CPU", "")
    assert replace(NODE, name="node_29", sources=(weight,)).layer == 7


def test_sizes_that_differ_in_more_than_tokens_are_told() -> None:
    def reading(ne: tuple[int, ...]) -> Seen:
        return replace(NODE, sources=(Source(None, "k", "f16", ne, (1,) * 4, "CPU", "k"),))

    assert shapes_differ(reading((64, 1, 1, 1)), reading((64, 5, 1, 1)), 5) == []
    assert shapes_differ(reading((64, 256, 3, 1)), reading((64, 512, 3, 1)), 5) == [
        "k [64,256,3] alone, [64,512,3] in the block"
    ]
