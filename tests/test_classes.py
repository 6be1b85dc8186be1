"""Width classes against their definition, and the grouped-rows case that is not transitive."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggmlprobe.classes import Signature, agree, width_classes

WIDEST = 9


def paths(width: int, group: int) -> list[str]:
    """Rows in whole groups of `group` go one way, the remainder goes the serial way."""
    grouped = width - width % group
    return [f"{'group' if t < grouped else 'serial'}-{t}" for t in range(width)]


def signatures(rows: dict[int, list[str]]) -> dict[int, Signature]:
    serial = [f"serial-{t}" for t in range(max(rows, default=1))]
    return {1: [serial]} | {width: [row] for width, row in rows.items() if width > 1}


def test_rows_in_groups_of_four_are_not_transitive() -> None:
    classes = width_classes(signatures({w: paths(w, 4) for w in range(1, 10)}))
    # 4 agrees with 5 and with 8 on tokens 0-3, but 5 takes token 4 the serial way, 8 does not.
    assert classes.groups == [[1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert not classes.transitive
    assert classes.pairs == [(4, 8), (4, 9)]
    assert classes.first_differing == 4


def test_one_kernel_for_all_widths_is_one_class() -> None:
    classes = width_classes(signatures({w: paths(w, 100) for w in (1, 2, 3, 16)}))
    assert classes.groups == [[1, 2, 3, 16]]
    assert classes.transitive
    assert classes.pairs == []
    assert classes.first_differing is None


def test_kernel_that_takes_over_at_eight_is_a_second_class() -> None:
    rows = {w: [f"{'tile' if w >= 8 else 'serial'}-{t}" for t in range(w)] for w in range(2, 10)}
    classes = width_classes(signatures(rows))
    assert classes.groups == [[1, 2, 3, 4, 5, 6, 7], [8, 9]]
    assert classes.transitive


def test_classes_can_alternate() -> None:
    rows = {w: [f"{'serial' if w % 2 else 'even'}-{t}" for t in range(w)] for w in range(2, 6)}
    classes = width_classes(signatures(rows))
    assert classes.groups == [[1, 3, 5], [2, 4]]
    assert [classes.letter(w) for w in range(1, 6)] == list("ABABA")


def test_one_seed_of_three_is_enough_to_part_two_widths() -> None:
    serial = [["a", "b"]] * 3
    assert width_classes({1: serial, 2: [["a", "b"], ["a", "b"], ["a", "c"]]}).groups == [[1], [2]]


def test_order_of_the_mapping_does_not_matter() -> None:
    rows = signatures({w: paths(w, 4) for w in range(1, 10)})
    assert width_classes(dict(reversed(rows.items()))) == width_classes(rows)


def test_letters_go_on_after_z() -> None:
    count = 26 + 26 * 26 + 1
    rows = {w: [[f"{w}"]] for w in range(1, count + 1)}
    classes = width_classes(rows)
    names = [classes.letter(w) for w in (1, 2, 26, 27, 28, 52, 53, 702, 703)]
    assert names == ["A", "B", "Z", "AA", "AB", "AZ", "BA", "ZZ", "AAA"]


def test_letter_of_a_width_that_was_not_probed_is_refused() -> None:
    with pytest.raises(KeyError, match="7"):
        width_classes({1: [["a"]]}).letter(7)


@pytest.mark.parametrize("rows", [{}, {2: [["a", "b"]]}])
def test_serial_reference_is_required(rows: dict[int, Signature]) -> None:
    with pytest.raises(ValueError, match="width 1"):
        width_classes(rows)


def test_different_numbers_of_seeds_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="zip"):
        agree([["a"]], [["a"], ["b"]])


@st.composite
def random_signatures(draw: st.DrawFn) -> dict[int, Signature]:
    widths = draw(st.sets(st.integers(2, WIDEST), max_size=6))
    seeds = draw(st.integers(1, 2))
    kernel = st.sampled_from("xyz")
    length = {1: WIDEST} | {w: w for w in widths}
    return {
        w: [draw(st.lists(kernel, min_size=n, max_size=n)) for _ in range(seeds)]
        for w, n in length.items()
    }


@given(random_signatures())
def test_classes_are_what_the_definition_says(rows: dict[int, Signature]) -> None:
    def same(v: int, w: int) -> bool:
        shared = min(len(rows[v][0]), len(rows[w][0]))
        return all(rows[v][s][:shared] == rows[w][s][:shared] for s in range(len(rows[v])))

    classes = width_classes(rows)
    group_of = {w: i for i, group in enumerate(classes.groups) for w in group}
    assert sorted(group_of) == sorted(rows)
    assert group_of[1] == 0
    for width in rows:
        earlier = [[w for w in group if w < width] for group in classes.groups]
        joined = [i for i, g in enumerate(earlier) if g and all(same(w, width) for w in g)]
        opened = sum(1 for g in earlier if g)
        assert group_of[width] == (joined[0] if joined else opened)
    crossing = [
        (v, w)
        for v, w in combinations(sorted(rows), 2)
        if same(v, w) and group_of[v] != group_of[w]
    ]
    assert classes.pairs == crossing
    triples = combinations(sorted(rows), 3)
    assert classes.transitive == all(
        sum((same(a, b), same(b, c), same(a, c))) != 2 for a, b, c in triples
    )
    outside = [w for w in sorted(rows) if group_of[w] != 0]
    assert classes.first_differing == (outside[0] if outside else None)
