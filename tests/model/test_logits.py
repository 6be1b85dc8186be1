"""Two rows of logits against the definitions, computed the plain way."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from ggmlprobe.model.logits import Change, Row, change


def row(seed: int, scale: float = 5.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(500) * scale).astype(np.float32)


@pytest.mark.parametrize("size", [1e-5, 1e-2, 0.1, 1.0, 20.0, 300.0])
def test_change_of_the_distribution_is_that_of_its_definition(size: float) -> None:
    single = row(1)
    block = single + row(2, size)
    found = change(Row(single), Row(block), 3)
    p, log_p = softmax(single.astype(np.float64)), log_softmax(single.astype(np.float64))
    q, log_q = softmax(block.astype(np.float64)), log_softmax(block.astype(np.float64))
    assert found.probability == pytest.approx(np.abs(p - q).max(), rel=1e-6)
    assert found.kl == pytest.approx((p * (log_p - log_q)).sum(), rel=1e-4, abs=1e-13)
    assert found.elements_differing == np.count_nonzero(single != block)


def test_centred_change_takes_each_rows_mean_off() -> None:
    single, other = row(1), row(2)
    block = other + np.float32(100)
    found = change(Row(single), Row(block), 17)
    centred = (block - block.mean(dtype=np.float64)) - (single - single.mean(dtype=np.float64))
    assert found.centred == pytest.approx(abs(centred[17]), rel=1e-5)
    assert found.centred_max == pytest.approx(np.abs(centred).max(), rel=1e-5)


def test_equal_rows_changed_nothing_and_zeros_of_two_signs_are_other_bits() -> None:
    assert change(Row(row(1)), Row(row(1)), 0) == Change()
    zero = row(1)
    zero[4] = 0.0
    negative = zero.copy()
    negative[4] = -0.0
    assert change(Row(zero), Row(negative), 0) == Change(1)
    assert not Row(zero).same_bits(Row(negative))


def test_masked_tokens_do_not_count() -> None:
    single, block = row(1), row(1)
    single[7] = block[7] = -np.inf
    block[8] += 1
    found = change(Row(single), Row(block), 8)
    assert found.elements_differing == 1
    assert found.centred_max == pytest.approx(1.0, rel=1e-2)
    assert np.isfinite([found.probability, found.kl]).all()


def test_a_token_that_only_one_path_masks_does_not_hide_the_rest() -> None:
    single, block = row(1), row(1)
    single[7] = -np.inf
    found = change(Row(single), Row(block), 8)
    assert found.elements_differing == 1
    assert 0 < found.kl < 1
    assert change(Row(block), Row(single), 8).kl == np.inf
    assert found.centred == found.centred_max == 0.0


def test_nan_gives_the_bits_only() -> None:
    block = row(1)
    block[0] = np.nan
    assert change(Row(row(1)), Row(block), 3) == Change(1)
    assert Row(block).nan
    assert not Row(row(1)).nan


def test_first_of_equal_logits_wins_with_no_margin() -> None:
    tie = Row(np.array([1, 5, 3, 5], np.float32))
    assert (tie.top, tie.margin) == (1, 0.0)
    assert Row(np.array([1, 5, 3.5], np.float32)).margin == 1.5
    assert Row(np.array([2], np.float32)).margin == np.inf
