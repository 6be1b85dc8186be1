"""The seed's method and the fast one, on a model in numpy with planted differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy_model import NumpyModel

from ggmlprobe.errors import ComputeFailed, UsageError
from ggmlprobe.model.compare import Job, compare
from ggmlprobe.model.decoder import greedy
from ggmlprobe.model.record import BlockComparison
from ggmlprobe.verdict import Verdict

PROMPT = [3, 1, 4, 1, 5]
BLANK = BlockComparison("c0", "p0", "given", "0" * 16, False, 12, 1, "prefill", "INVARIANT")


def run(
    model: NumpyModel, widths: tuple[int, ...] = (5,), prefixes: tuple[str, ...] = ("prefill",),
    n: int = 12, **more: Any,
) -> dict[tuple[int, str], BlockComparison]:  # fmt: skip
    todo = [(width, prefix) for width in widths for prefix in prefixes]
    job = Job(
        replace(BLANK, n=n), more.pop("prompt", PROMPT), todo, not model.recurrent,
        lambda token: f"<{token}>".encode(), **more,
    )  # fmt: skip
    return {(made.width, made.prefix): made for made in compare(job, model, model)}


def one(model: NumpyModel, **more: Any) -> BlockComparison:
    (made,) = run(model, **more).values()
    return made


def nudge(row: np.ndarray) -> None:
    row[:] = np.nextafter(row, np.float32(np.inf))


def test_equal_paths_differ_nowhere() -> None:
    made = one(NumpyModel())
    assert made.verdict == Verdict.INVARIANT
    assert (made.cells_differing, made.flips, made.elements_differing) == (0, 0, 0)
    assert made.severity == {"0": made.cells}
    assert [pair.mean_abs for pair in made.pairs] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("n", "width", "cells"), [(100, 5, 490), (60, 5, 290), (12, 1, 12), (3, 8, 6), (1, 5, 1)]
)
def test_count_of_cells_is_that_of_the_seed(n: int, width: int, cells: int) -> None:
    made = one(NumpyModel(), widths=(width,), n=n)
    assert made.cells == cells == sum(min(width, n - t) for t in range(n))
    assert made.windows_full == max(0, n - width + 1)


def test_every_window_is_prefilled_as_one_batch_and_decoded_both_ways() -> None:
    model = NumpyModel()
    one(model, widths=(3,), n=4)
    ar = [(0, 4), (4, 1), (5, 1), (6, 1), (7, 1)]
    zero = [(0, 4), (4, 1), (5, 1), (6, 1), (0, 4), (4, 3), (0, 4), (4, 3)]
    first = [(0, 5), (5, 1), (6, 1), (7, 1), (0, 5), (5, 3)]
    second = [(0, 6), (6, 1), (7, 1), (0, 6), (6, 2)]
    third = [(0, 7), (7, 1), (0, 7), (7, 1)]
    assert model.calls == ar + zero + first + second + third
    # wiped before the AR run, and before each path of each window, once more at t = 0
    assert model.cleared == 1 + 2 * 4 + 1


def test_inputs_are_the_ar_tokens_even_after_a_flip() -> None:
    def flip(row: np.ndarray, position: int, offset: int) -> None:
        if offset == 1:
            row[0] = row.max() + 1

    plain, planted = one(NumpyModel()), one(NumpyModel(block=flip))
    assert planted.ar_tokens == plain.ar_tokens
    assert planted.flips == 11
    assert {each.offset for each in planted.flip_list} == {1}
    # nothing after the flipped cell moved
    assert [count.flips for count in planted.by_offset] == [0, 8, 0, 0, 0]


def test_a_single_token_prompt_needs_no_prefill() -> None:
    made = one(NumpyModel(), prompt=[7], n=3, widths=(2,))
    assert (made.cells, made.verdict) == (5, Verdict.INVARIANT)
    with pytest.raises(UsageError, match="no tokens"):
        greedy(NumpyModel(), [], 3)


def test_a_cell_is_where_its_fault_was_planted() -> None:
    start = len(PROMPT) - 1

    def plant(row: np.ndarray, position: int, offset: int) -> None:
        if (position, offset) == (start + 6, 2):
            nudge(row)

    made = one(NumpyModel(block=plant), keep_cells=True)
    assert made.verdict == Verdict.MISMATCH
    assert made.cells_differing == 1
    values = made.cell_values
    assert values is not None
    (at,) = np.flatnonzero(values.elements_differing)
    assert (values.window[at], values.offset[at]) == (4, 2)
    assert values.elements_differing[at] == made.elements_differing == 40
    assert len(values.window) == made.cells


def test_numbers_are_the_logits_of_the_ar_token() -> None:
    def plant(row: np.ndarray, position: int, offset: int) -> None:
        row += np.float32(0.5)

    made = one(NumpyModel(block=plant), keep_cells=True)
    values = made.cell_values
    assert values is not None
    model = NumpyModel()
    expected = greedy(model, PROMPT, 12)
    for t, j, ar in zip(values.window, values.offset, values.l_ar, strict=True):
        assert ar == float(expected.rows[t + j].logits[expected.tokens[t + j]])
    single, block = np.array(values.l_single), np.array(values.l_block)
    np.testing.assert_array_equal(single, np.array(values.l_ar))
    # width 5 has one cell that is a block of one token: the last
    np.testing.assert_allclose(block[:-1] - single[:-1], 0.5, atol=1e-6)
    assert block[-1] == single[-1]
    ar_single, ar_block, single_block = made.pairs
    assert ar_single.mean == 0.0
    assert ar_block.mean == single_block.mean == pytest.approx(float((single - block).mean()))
    assert single_block.var == pytest.approx(float((single - block).var()))
    # a shift of all logits changes no distribution
    assert made.probability_change_max == pytest.approx(0.0, abs=1e-6)
    assert made.kl_max == pytest.approx(0.0, abs=1e-6)
    assert made.centred_max == pytest.approx(0.0, abs=1e-6)


def test_drift_of_prefill_is_in_the_pairs_with_ar_and_noted_at_the_flip() -> None:
    made = one(NumpyModel(prefilled=0.3), n=30)
    ar_single, _, single_block = made.pairs
    assert ar_single.mean_abs
    assert single_block.mean_abs
    assert made.verdict == Verdict.MISMATCH
    for flip in made.flip_list:
        assert flip.off_trajectory == (flip.single_token != flip.ar_token)
    assert {flip.off_trajectory for flip in made.flip_list} == {True, False}


def test_self_check_fires_where_the_same_graph_gives_other_bits() -> None:
    calls = 0

    def noise(row: np.ndarray, position: int, offset: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 20:
            nudge(row)

    made = one(NumpyModel(single=noise))
    # call 20 is not in window 0, whose single path are calls 13 to 17
    assert made.verdict == Verdict.MISMATCH
    calls = 4
    made = one(NumpyModel(single=noise))
    assert made.verdict == Verdict.NONDETERMINISTIC
    assert made.detail == "check t=0 single: 1 of 5 rows differ"


def test_self_check_repeats_the_block() -> None:
    calls = 0

    def noise(row: np.ndarray, position: int, offset: int) -> None:
        nonlocal calls
        if (position, offset) == (4, 0):
            calls += 1
            row[0] += np.float32(calls)

    made = one(NumpyModel(block=noise))
    assert made.verdict == Verdict.NONDETERMINISTIC
    assert made.detail is not None
    assert "t=0 block" in made.detail


def test_nan_logits_are_no_comparison() -> None:
    def plant(row: np.ndarray, position: int, offset: int) -> None:
        if offset == 3:
            row[7] = np.nan

    made = one(NumpyModel(block=plant))
    assert (made.verdict, made.nan) == (Verdict.NAN, 9)


def test_truncated_windows_are_kept_out_of_rates() -> None:
    last = len(PROMPT) - 1 + 11

    def plant(row: np.ndarray, position: int, offset: int) -> None:
        if position == last:
            row[0] = row.max() + 1

    made = one(NumpyModel(block=plant))
    assert made.flips == 4  # windows 7 (full), 8, 9 and 10; window 11 is a single token
    assert made.windows_flipped == 1
    assert sum(count.flips for count in made.by_offset) == 1
    assert made.first_flip == 11
    assert made.flip_positions == 1


def test_near_ties_are_those_of_the_single_path() -> None:
    def tie(row: np.ndarray, position: int, offset: int) -> None:
        row[np.argsort(row)[-2]] = row.max()

    def far(row: np.ndarray, position: int, offset: int) -> None:
        row[row.argmax()] += 100

    in_blocks = one(NumpyModel(block=tie, single=far), near_tie=0.5)
    assert in_blocks.near_ties == 0
    in_singles = one(NumpyModel(block=far, single=tie), near_tie=0.5)
    assert in_singles.near_ties == in_singles.cells
    assert in_singles.near_tie == 0.5
    assert in_singles.margins[0].cells == in_singles.cells


def test_widths_together_give_what_each_gives_alone() -> None:
    def plant(row: np.ndarray, position: int, offset: int) -> None:
        row += np.float32(0.01 * offset)

    together = run(NumpyModel(block=plant, prefilled=0.1), widths=(2, 5, 8))
    for (width, prefix), made in together.items():
        alone = one(NumpyModel(block=plant, prefilled=0.1), widths=(width,))
        assert replace(made, seconds=None) == replace(alone, seconds=None), (width, prefix)


@pytest.mark.parametrize("recurrent", [False, True])
def test_prefix_ar_starts_blocks_from_the_ar_run(recurrent: bool) -> None:
    def plant(row: np.ndarray, position: int, offset: int) -> None:
        row[0] += np.float32(offset)

    model = NumpyModel(block=plant, prefilled=0.0, recurrent=recurrent)
    both = run(model, prefixes=("prefill", "ar"), widths=(2, 5))
    for width in (2, 5):
        ar, seed = both[width, "ar"], both[width, "prefill"]
        assert ar.method == ("saved state" if recurrent else "rollback")
        # without drift both methods see the same
        assert ar.cells == seed.cells
        assert ar.cells_differing == seed.cells_differing > 0
        assert ar.pairs == seed.pairs
        assert [f.position for f in ar.flip_list] == [f.position for f in seed.flip_list]
        assert (ar.drift_cells_differing, ar.drift and ar.drift.mean_abs) == (0, 0.0)
        assert [check.name for check in ar.checks] == [
            "t=0 single", "t=0 block", "state", "t=0 methods",
        ]  # fmt: skip
        assert all(check.rows and not check.rows_differing for check in ar.checks)


@pytest.mark.parametrize("recurrent", [False, True])
def test_prefix_ar_has_the_ar_run_as_its_single_path(recurrent: bool) -> None:
    made = run(NumpyModel(prefilled=0.3, recurrent=recurrent), prefixes=("prefill", "ar"), n=20)
    ar, seed = made[5, "ar"], made[5, "prefill"]
    assert ar.pairs[0].mean_abs == 0.0
    assert seed.pairs[0].mean_abs
    assert ar.drift is not None
    assert ar.drift.cells == ar.cells - 5
    assert ar.drift.mean_abs
    assert ar.drift_cells_differing
    # both paths of window 0, which knows no drift
    assert {check.name: check.rows for check in ar.checks}["t=0 methods"] == 2 * 5
    assert [c.rows_differing for c in ar.checks] == [0, 0, 0, 0]
    assert not any(flip.off_trajectory for flip in ar.flip_list)


def test_prefix_ar_prefills_only_for_the_run_and_the_checks() -> None:
    model = NumpyModel()
    one(model, prefixes=("ar",), n=50)
    assert sum(length == 4 for _, length in model.calls) <= 4 + 1
    assert sum(length for _, length in model.calls) < 50 * (1 + 5) + 50
    recurrent = NumpyModel(recurrent=True)
    one(recurrent, prefixes=("ar",), n=50)
    assert recurrent.saved == 50


def test_a_state_that_does_not_come_back_is_found() -> None:
    class Forgetful(NumpyModel):
        def rollback(self, pos: int) -> bool:
            super().rollback(pos)
            self.memory[0] = self.memory[0] + 1.0
            return True

    made = one(Forgetful(), prefixes=("ar",))
    assert made.verdict == Verdict.NONDETERMINISTIC
    assert made.detail is not None
    assert made.detail.startswith("check state:")

    class Lossy(NumpyModel):
        def restore(self, state: bytes) -> None:
            super().restore(state)
            self.memory[-1] = self.memory[-1] * 1.5

    made = one(Lossy(recurrent=True), prefixes=("ar",))
    assert made.verdict == Verdict.NONDETERMINISTIC
    assert made.detail is not None
    assert made.detail.startswith("check state:")


def test_memory_that_refuses_to_go_back_ends_the_comparison() -> None:
    class Refusing(NumpyModel):
        def rollback(self, pos: int) -> bool:
            return False

    with pytest.raises(ComputeFailed, match="--prefix prefill"):
        one(Refusing(), prefixes=("ar",))


def test_begin_names_what_runs() -> None:
    seen: list[tuple[str, int, int | None]] = []
    model = NumpyModel()
    job = Job(replace(BLANK, n=2), PROMPT, [(3, "prefill")], True, lambda token: b"")
    list(compare(job, model, model, lambda *what: seen.append(what)))
    assert seen == [
        ("prefill", 0, None), ("ar", 0, None), ("ar", 1, None),
        ("single", 0, None), ("block", 0, 3), ("block", 0, 3),
        ("single", 1, None), ("block", 1, 3),
    ]  # fmt: skip
