"""Arms of a text against plain decoding: verdicts, the token that differs, turns and times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy_model import VOCABULARY, NumpyModel
from test_speculate import PLAIN, PROMPT, N, Oracle, flip, wrong_once

from ggmlprobe.model.drafters import Wrong
from ggmlprobe.model.equivalence import Arm, common, compare, ratio_fields
from ggmlprobe.model.speculate import Drafter, Memory, Speculation
from ggmlprobe.model.speculated import Speculated

BLANK = Speculated("c0", "p0", "given", "0" * 16, False, N, 3, "draft", "INVARIANT")


def piece(token: int) -> bytes:
    return f" {token}".encode()


def arm(
    model: NumpyModel, drafter: Callable[[Sequence[int]], Drafter] | None, name: str = "draft",
    rounds: int = 1, **how: Any,
) -> Arm:  # fmt: skip
    blank = replace(BLANK, arm=name, recheck=how.get("recheck", 0.0))
    return Arm(blank, Memory(model, True), Speculation(N, 3, **how), rounds, drafter)


def plain(model: NumpyModel, rounds: int = 1) -> Arm:
    return Arm(None, Memory(model, True), Speculation(N), rounds)


def oracle(text: Sequence[int]) -> Oracle:
    return Oracle(PLAIN)


def test_equal_texts() -> None:
    model = NumpyModel()
    (row,) = compare(plain(model), [arm(model, oracle)], PROMPT, piece)
    assert row.verdict == "INVARIANT"
    assert row.text == row.plain_text == "".join(f" {token}" for token in PLAIN)
    assert (row.drafts, row.drafted, row.accepted, row.blocks) == (5, 15, 15, 5)
    assert row.mean_length == 4.0
    assert row.difference is None
    assert row.ratio is None


def test_the_targets_own_numbers() -> None:
    model = flip(5)
    arms = [arm(model, oracle), arm(model, oracle, recheck=0.1)]
    noise, cured = compare(plain(model), arms, PROMPT, piece)
    assert (noise.verdict, cured.verdict) == ("MISMATCH", "INVARIANT")
    assert cured.changed == 1
    apart = noise.difference
    assert apart is not None
    assert (apart.position, apart.plain_token, apart.own) == (5, PLAIN[5], True)
    assert apart.token == (PLAIN[5] + 3) % VOCABULARY
    assert (apart.width, apart.offset) == (4, 1)
    assert apart.margin == pytest.approx(0.01, abs=1e-4)
    assert apart.plain_margin is not None
    assert apart.plain_logits[0] > apart.plain_logits[1]  # type: ignore[operator]
    assert apart.logits[0] < apart.logits[1]  # type: ignore[operator]
    before = len("".join(f" {token}" for token in PLAIN[:5]))
    assert noise.text[: apart.byte] == noise.plain_text[: apart.byte]
    assert before <= apart.byte
    assert noise.text[apart.byte] != noise.plain_text[apart.byte]


def test_a_broken_verifier_is_not_taken_for_noise() -> None:
    model = NumpyModel()
    (row,) = compare(
        plain(model),
        [arm(model, lambda text: Wrong(text, VOCABULARY), "wrong", verify=wrong_once)],
        PROMPT,
        piece,
    )
    assert row.verdict == "WRONG"
    assert row.detail is not None
    assert f"token 0 is {(PLAIN[0] + 1) % VOCABULARY}" in row.detail
    assert f"argmax {PLAIN[0]}" in row.detail
    assert row.difference is not None
    assert row.difference.own is False


def test_a_broken_verifier_behind_a_flip_is_noise_up_to_the_flip() -> None:
    model = flip(2)

    def late(text: Sequence[int]) -> Oracle:
        return Oracle(PLAIN, wrong=[9])

    (row,) = compare(plain(model), [arm(model, late, verify=wrong_once)], PROMPT, piece)
    assert row.difference is not None
    assert row.difference.position == 2


def test_a_wrong_draft_on_a_sound_target_is_equal() -> None:
    model = NumpyModel()
    wrong = arm(model, lambda text: Wrong(text, VOCABULARY), "wrong")
    (row,) = compare(plain(model), [wrong], PROMPT, piece)
    assert row.verdict == "INVARIANT"
    assert row.accepted is not None
    assert row.drafted is not None
    assert row.accepted < row.drafted


def test_a_user_context_of_other_numbers() -> None:
    def other(row: np.ndarray, position: int, offset: int) -> None:
        if position == len(PROMPT) + 2:
            row[0] = row.max() + 1

    (row,) = compare(
        plain(NumpyModel()), [arm(NumpyModel(single=other), None, "user")], PROMPT, piece
    )
    assert (row.verdict, row.arm, row.drafted) == ("MISMATCH", "user", 0)
    assert row.difference is not None
    assert (row.difference.position, row.difference.width) == (3, 1)


def test_a_text_that_ends_before() -> None:
    at = next(i for i in range(4, N) if (PLAIN[i] + 3) % VOCABULARY not in PLAIN)
    model, end = flip(at), (PLAIN[at] + 3) % VOCABULARY
    how: dict[str, Any] = {"ends": lambda token: token == end}
    base = Arm(None, Memory(model, True), Speculation(N, **how), 1)
    (row,) = compare(base, [arm(model, oracle, **how)], PROMPT, piece)
    assert (row.tokens, row.verdict) == (at + 1, "MISMATCH")


class Unsteady(NumpyModel):
    """Gives other numbers from its second prompt on."""

    def decode(self, tokens: Sequence[int], first_pos: int, logits: str = "last") -> np.ndarray:
        rows = super().decode(tokens, first_pos, logits)
        return -rows if self.cleared > 1 else rows


def test_a_text_that_does_not_repeat_claims_nothing() -> None:
    model = NumpyModel()
    (row,) = compare(plain(model, 2), [arm(Unsteady(), oracle, rounds=2)], PROMPT, piece)
    assert row.verdict == "NONDETERMINISTIC"
    (row,) = compare(plain(Unsteady(), 2), [arm(model, oracle, rounds=2)], PROMPT, piece)
    assert row.verdict == "NONDETERMINISTIC"
    assert row.detail is not None
    assert row.detail.startswith("plain")
    # after one round it shows when the text is evaluated again
    (row,) = compare(plain(Unsteady()), [arm(flip(5), oracle)], PROMPT, piece)
    assert row.verdict == "NONDETERMINISTIC"
    assert row.detail == "plain: evaluated again, it gave another token"


def test_a_nan_claims_nothing() -> None:
    def poison(row: np.ndarray, position: int, offset: int) -> None:
        if position > len(PROMPT) + 5:
            row[3] = np.nan

    (row,) = compare(plain(NumpyModel()), [arm(NumpyModel(block=poison), oracle)], PROMPT, piece)
    assert row.verdict == "NAN"


def test_arms_take_turns_and_times_pair_up() -> None:
    model, seen = NumpyModel(), list[tuple[str, int]]()
    arms = [arm(model, oracle, rounds=3), arm(model, None, "user", rounds=3),
            arm(model, oracle, "wrong", rounds=2)]  # fmt: skip
    rows = list(compare(plain(model, 3), arms, PROMPT, piece, lambda *at: seen.append(at)))
    turns = [name for name, turn in seen if "audit" not in name]
    assert turns == [
        "plain", "draft", "user", "wrong", "draft", "user", "wrong", "plain",
        "user", "plain", "draft",
    ]  # fmt: skip
    assert [len(row.token_seconds) for row in rows] == [2, 2, 0]
    draft = rows[0]
    assert len(draft.plain_token_seconds) == 2
    assert draft.ratio is not None
    assert draft.ratio_low is not None
    assert draft.ratio_high is not None
    assert draft.ratio_low <= draft.ratio <= draft.ratio_high


def test_ratios() -> None:
    assert ratio_fields([], []) == {}
    assert ratio_fields([1.0], [2.0]) == {"ratio": 0.5}
    three = ratio_fields([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert three == {"ratio": pytest.approx(2.0), "ratio_low": pytest.approx(2.0),
                     "ratio_high": pytest.approx(2.0)}  # fmt: skip


def test_common_beginnings() -> None:
    assert common([1, 2, 3], [1, 2, 4]) == 2
    assert common([1, 2], [1, 2, 4]) == 2
    assert common([], [1]) == 0
    assert common(b"ab", b"ac") == 1
