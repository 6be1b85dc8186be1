"""The measurement on numpy functions: what is run, how often, and what each width is told to be."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from ggmlprobe.compare import UNWRITTEN, hash_token
from ggmlprobe.probe import Outcome, probe

TOKENS, ELEMENTS = 6, 5
WIDTHS = (1, 2, 4, 6)

RNG = np.random.default_rng(7)
OUT = RNG.standard_normal((TOKENS, ELEMENTS)).astype(np.float32)
EXACT = OUT.astype(np.float64) + RNG.standard_normal((TOKENS, ELEMENTS)) * 1e-7
MAGNITUDE = np.abs(EXACT) + RNG.random((TOKENS, ELEMENTS)) * 3

Plant = Callable[[np.ndarray, int, int, int], object]


def reference(token: int) -> tuple[np.ndarray, np.ndarray]:
    return EXACT[token], MAGNITUDE[token]


class Evaluator:
    """Returns rows of OUT; `plant` may change them: (rows, first token, count, nth such run)."""

    def __init__(self, plant: Plant = lambda out, first, count, run: None) -> None:
        self.plant = plant
        self.runs: Counter[tuple[int, int]] = Counter()

    def __call__(self, first: int, count: int) -> np.ndarray:
        out = OUT[first : first + count].copy()
        self.plant(out, first, count, self.runs[first, count])
        self.runs[first, count] += 1
        return out


def outcomes(plant: Plant, widths: tuple[int, ...] = WIDTHS) -> dict[int, Outcome]:
    found = {o.width: o for o in probe(Evaluator(plant), reference, widths, TOKENS)}
    assert sorted(found) == sorted({1, *widths})
    return found


def untouched(out: np.ndarray, first: int, count: int, run: int) -> None:
    """Leave the rows as they are."""


def last_column(out: np.ndarray, first: int, count: int, run: int) -> None:
    """Move one element of a block's last token by one ULP."""
    if count > 1:
        out.view(np.uint32)[-1, 2] += 1


def test_an_exact_path_differs_nowhere() -> None:
    for width, outcome in outcomes(untouched).items():
        rows = TOKENS if width == 1 else width
        assert outcome.difference.columns == []
        assert outcome.difference.elements == rows * ELEMENTS
        assert outcome.difference.elements_differing == outcome.difference.max_ulp == 0
        assert outcome.serial_repeats
        assert outcome.width_repeats
        assert (outcome.nan, outcome.unwritten, outcome.max_err_scaled) == (0, 0, 0.0)
        assert outcome.nmse_serial == outcome.nmse_width > 0
        assert outcome.hashes == [hash_token(row) for row in OUT[:rows]]


def test_one_ulp_in_the_last_column_is_the_only_difference() -> None:
    found = outcomes(last_column)
    assert found[1].difference.columns == []
    for width in WIDTHS[1:]:
        difference = found[width].difference
        assert difference.columns == [width - 1]
        assert (difference.elements_differing, difference.max_ulp) == (1, 1)
        assert difference.ulp_histogram == {"1": 1}
        # the earlier columns keep the serial hashes, the last one does not
        assert found[width].hashes[:-1] == found[1].hashes[: width - 1]
        assert found[width].hashes[-1] != found[1].hashes[width - 1]


def test_a_width_whose_first_columns_differ() -> None:
    def groups_of_four(out: np.ndarray, first: int, count: int, run: int) -> None:
        if count >= 4:
            out[: count - count % 4] *= np.float32(1 + 2**-20)

    found = outcomes(groups_of_four, (1, 2, 4, 5, 6))
    columns = {width: outcome.difference.columns for width, outcome in found.items()}
    assert columns == {1: [], 2: [], 4: [0, 1, 2, 3], 5: [0, 1, 2, 3], 6: [0, 1, 2, 3]}
    assert found[5].hashes[:4] == found[4].hashes
    assert found[5].hashes[4] == found[1].hashes[4]


def test_a_serial_run_that_does_not_repeat_touches_only_widths_that_hold_its_token() -> None:
    def token_three(out: np.ndarray, first: int, count: int, run: int) -> None:
        if (first, count) == (3, 1) and run == 1:
            out.view(np.uint32)[0, 0] += 1

    found = outcomes(token_three, (1, 2, 3, 4, 6))
    assert {w: o.serial_repeats for w, o in found.items()} == {
        1: False, 2: True, 3: True, 4: False, 6: False,
    }  # fmt: skip
    assert {w: o.width_repeats for w, o in found.items()} == {
        1: False, 2: True, 3: True, 4: True, 6: True,
    }  # fmt: skip


def test_a_block_that_does_not_repeat() -> None:
    def second_run(out: np.ndarray, first: int, count: int, run: int) -> None:
        if count == 4 and run == 1:
            out.view(np.uint32)[1, 1] ^= 1

    found = outcomes(second_run)
    assert {w: o.width_repeats for w, o in found.items()} == {1: True, 2: True, 4: False, 6: True}
    assert all(o.serial_repeats for o in found.values())
    # the first of the two runs is the one that is compared
    assert found[4].difference.columns == []


def test_runs_are_compared_by_bits_not_by_value() -> None:
    def sign_of_zero(out: np.ndarray, first: int, count: int, run: int) -> None:
        out[0, 0] = -0.0 if run else 0.0

    assert not outcomes(sign_of_zero)[2].width_repeats

    def always_nan(out: np.ndarray, first: int, count: int, run: int) -> None:
        if first == 0:
            out[0, 0] = np.nan

    # NaN is not equal to itself, its bits are
    found = outcomes(always_nan, (1, 2))[2]
    assert found.serial_repeats
    assert found.width_repeats
    assert found.difference.columns == []


@pytest.mark.parametrize("where", ["serial", "block"])
def test_nan_and_unwritten_are_counted_apart_in_both_paths(where: str) -> None:
    def plant(out: np.ndarray, first: int, count: int, run: int) -> None:
        if (count == 1) == (where == "serial") and first <= 1 < first + count:
            row = out[1 - first]
            row[0] = np.nan
            row.view(np.uint32)[1:3] = UNWRITTEN

    found = outcomes(plant)
    assert (found[1].nan, found[1].unwritten) == ((1, 2) if where == "serial" else (0, 0))
    for width in WIDTHS[1:]:
        assert (found[width].nan, found[width].unwritten) == (1, 2)
        assert found[width].difference.columns == [1]


def test_every_token_runs_alone_exactly_twice_and_every_block_twice() -> None:
    evaluate = Evaluator()
    assert len(list(probe(evaluate, reference, (1, 2, 4, 6), TOKENS))) == 4
    serial = {(token, 1): 2 for token in range(TOKENS)}
    assert evaluate.runs == serial | {(0, 2): 2, (0, 4): 2, (0, 6): 2}


def test_widths_without_one_still_give_the_serial_reference_first() -> None:
    evaluate = Evaluator()
    made = list(probe(evaluate, reference, (2, 3), TOKENS))
    assert [outcome.width for outcome in made] == [1, 2, 3]
    assert len(made[0].hashes) == TOKENS


def test_begin_is_told_before_each_width() -> None:
    seen: list[tuple[int, int]] = []
    evaluate = Evaluator()

    def begin(width: int) -> None:
        seen.append((width, sum(evaluate.runs.values())))

    list(probe(evaluate, reference, (1, 2, 4), TOKENS, begin=begin))
    assert seen == [(1, 0), (2, 2 * TOKENS), (4, 2 * TOKENS + 2)]


def test_a_block_evaluator_of_its_own_makes_width_one_a_block() -> None:
    serial, block = Evaluator(), Evaluator(lambda out, *_: np.negative(out, out))
    made = {o.width: o for o in probe(serial, reference, (1, 3), TOKENS, block=block)}
    assert sorted(made) == [1, 3]
    assert {w: o.difference.columns for w, o in made.items()} == {1: [0], 3: [0, 1, 2]}
    assert made[1].hashes == [hash_token(-OUT[0])]
    assert block.runs == {(0, 1): 2, (0, 3): 2}
    assert serial.runs == {(0, 1): 2, (0, 3): 2}, "each width is compared with itself"


def test_a_check_does_not_see_what_the_width_does() -> None:
    """Both ways give blocks other bits than serial runs, and the same as each other."""
    ways = [Evaluator(lambda out, first, count, run: np.negative(out, out)) for _ in range(2)]
    made = probe(ways[0], reference, (1, 3), TOKENS, block=ways[1])
    assert [o.difference.columns for o in made] == [[], []]


def test_an_error_of_a_width_ends_that_width_only() -> None:
    def fails_at_four(out: np.ndarray, first: int, count: int, run: int) -> None:
        if count == 4:
            raise MemoryError("no room")

    failures: list[tuple[int, str]] = []
    made = list(probe(
        Evaluator(fails_at_four), reference, WIDTHS, TOKENS, row_errors=(MemoryError,),
        failed=lambda width, error: failures.append((width, str(error))),
    ))  # fmt: skip
    assert [o.width for o in made] == [1, 2, 6]
    assert failures == [(4, "no room")]
    with pytest.raises(MemoryError):
        list(probe(Evaluator(fails_at_four), reference, WIDTHS, TOKENS, row_errors=(OSError,)))


def test_an_error_of_the_serial_runs_ends_the_run() -> None:
    def fails_alone(out: np.ndarray, first: int, count: int, run: int) -> None:
        if (first, count) == (5, 1):
            raise MemoryError

    with pytest.raises(MemoryError):
        list(probe(Evaluator(fails_alone), reference, (2,), TOKENS, row_errors=(MemoryError,)))


def exact_nmse(out: np.ndarray, exact: np.ndarray) -> Fraction:
    """NMSE in rational numbers."""
    pairs = [
        (Fraction(float(o)), Fraction(float(e))) for o, e in zip(out.flat, exact.flat, strict=True)
    ]
    return sum((o - e) ** 2 for o, e in pairs) / sum(e**2 for _, e in pairs)


def test_errors_of_both_paths_are_those_of_the_tokens_compared() -> None:
    def coarse(out: np.ndarray, first: int, count: int, run: int) -> None:
        if count > 1:
            out[:2] = out[:2].astype(np.float16)

    for width, outcome in outcomes(coarse).items():
        rows = TOKENS if width == 1 else width
        block = OUT[:rows].copy()
        if width > 1:
            block[:2] = block[:2].astype(np.float16)
        serial_error = exact_nmse(OUT[:rows], EXACT[:rows])
        assert outcome.nmse_serial == pytest.approx(float(serial_error), rel=1e-9)
        width_error = exact_nmse(block, EXACT[:rows])
        assert outcome.nmse_width == pytest.approx(float(width_error), rel=1e-9)


def test_scaled_error_is_the_largest_over_columns_and_elements() -> None:
    def shift(out: np.ndarray, first: int, count: int, run: int) -> None:
        if count == 4:
            out[1, 3] += np.float32(2**-12)
            out[2, 0] -= np.float32(2**-9)
            out[3, 1] += np.float32(2**-14)

    outcome = outcomes(shift)[4]
    block = OUT[:4].copy()
    shift(block, 0, 4, 0)
    scaled = [
        abs(Fraction(float(a)) - Fraction(float(b))) / (Fraction(float(w)) / 2**24)
        for a, b, w in zip(OUT[:4].flat, block.flat, MAGNITUDE[:4].flat, strict=True)
    ]
    assert outcome.max_err_scaled == pytest.approx(float(max(scaled)), rel=1e-12)
    assert outcomes(shift)[2].max_err_scaled == 0.0


def test_an_all_zero_output_against_a_zero_reference_has_no_error() -> None:
    zero = np.zeros(ELEMENTS)
    made = list(probe(
        lambda first, count: np.zeros((count, ELEMENTS), np.float32),
        lambda token: (zero, zero), (1, 2), 2,
    ))  # fmt: skip
    assert [(o.nmse_serial, o.nmse_width, o.max_err_scaled) for o in made] == [(0.0, 0.0, 0.0)] * 2
    assert not any(math.isnan(o.nmse_width) for o in made)
