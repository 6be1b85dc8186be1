"""Speculative decoding on a numpy model: counts, positions, ends, rechecks, audits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy_model import VOCABULARY, NumpyModel

from ggmlprobe.errors import ComputeFailed, UsageError
from ggmlprobe.model.decoder import greedy
from ggmlprobe.model.drafters import DraftModel, Ngram, Wrong
from ggmlprobe.model.logits import Row
from ggmlprobe.model.speculate import Doubt, Drafter, Generation, Memory, Speculation, accept, audit

PROMPT = [1, 2, 3, 4]
N = 20
PLAIN = greedy(NumpyModel(), PROMPT, N).tokens


class Oracle:
    """Drafts the text itself, with wrong tokens at some places of it."""

    def __init__(self, text: Sequence[int], wrong: Sequence[int] = ()) -> None:
        self.text = [(t + 1) % VOCABULARY if i in wrong else t for i, t in enumerate(text)]
        self.asked: list[int] = []

    def start(self, prompt: Sequence[int]) -> None:
        self.prompt = len(prompt)

    def draft(self, tokens: Sequence[int], most: int) -> list[int]:
        self.asked.append(most)
        begin = len(tokens) - self.prompt
        return self.text[begin : begin + most]


def generate(
    drafter: Drafter | None, model: NumpyModel | None = None, n_max: int = 3, **how: object
) -> Generation:
    model = model or NumpyModel()
    made = Speculation(N, n_max, **how)  # type: ignore[arg-type]
    return made.run(Memory(model, not model.recurrent), drafter, PROMPT)


def test_plain_is_one_token_a_block() -> None:
    made = generate(None)
    assert made.tokens == PLAIN
    assert {len(block.inputs) for block in made.blocks} == {1}
    assert made.drafted == made.drafts == 0
    assert made.seconds > 0


def test_a_perfect_draft_is_accepted_whole() -> None:
    oracle = Oracle(PLAIN)
    made = generate(oracle)
    assert made.tokens == PLAIN
    # 20 tokens in blocks that give 4 each
    assert [block.taken for block in made.blocks] == [4] * 5
    assert (made.drafts, made.drafted, made.accepted) == (5, 15, 15)


@pytest.mark.parametrize("n_max", [1, 2, 5, 7, 30])
def test_no_more_is_drafted_than_is_left(n_max: int) -> None:
    model, oracle = NumpyModel(), Oracle(PLAIN)
    made = generate(oracle, model, n_max)
    assert made.tokens == PLAIN
    assert len(made.tokens) == N
    assert max(oracle.asked) <= min(n_max, N - 1)
    assert sum(block.taken for block in made.blocks) == N
    # the last token needs no room of its own
    assert max(first + count for first, count in model.calls) <= len(PROMPT) + N - 1


def test_wrong_tokens_are_rolled_back_to_the_first_of_them() -> None:
    model = NumpyModel()
    made = generate(Oracle(PLAIN, wrong=[1, 6]), model)
    assert made.tokens == PLAIN
    # block 0 drafts tokens 0-2: 0 accepted, 1 wrong; block 1 drafts 2-4, then 6 is wrong in 6-8
    assert [block.taken for block in made.blocks[:3]] == [2, 4, 1]
    assert (made.drafted, made.accepted) == (18, 13)
    starts = [first for first, _ in model.calls[1:]]
    taken = [sum(b.taken for b in made.blocks[:i]) for i in range(len(made.blocks))]
    assert starts == [len(PROMPT) - 1 + before for before in taken]


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_draft_wrong_at_every_place_in_turn_changes_nothing(recurrent: bool) -> None:
    model = NumpyModel(recurrent=recurrent)
    made = generate(Wrong(PLAIN, VOCABULARY), model)
    assert made.tokens == PLAIN
    assert {block.taken for block in made.blocks if len(block.inputs) == 4} == {1, 2, 3}
    assert 0 < made.accepted < made.drafted
    assert bool(model.saved) == recurrent
    assert len(model.memory) == len(PROMPT) + N - 1


def test_a_memory_that_cannot_go_back_needs_a_state() -> None:
    model = NumpyModel(recurrent=True)
    with pytest.raises(ComputeFailed, match="cannot be rolled back"):
        Speculation(N, 3).run(Memory(model, True), Wrong(PLAIN, VOCABULARY), PROMPT)


@pytest.mark.parametrize("place", [0, 1, 5, 6, 7])
def test_a_token_that_ends_the_text_is_the_last(place: int) -> None:
    end = PLAIN[place]
    first = PLAIN.index(end)

    def ends(token: int) -> bool:
        return token == end

    model = NumpyModel()
    made = generate(Oracle(PLAIN), model, ends=ends)
    assert made.tokens == PLAIN[: first + 1] == generate(None, ends=ends).tokens
    assert sum(block.taken for block in made.blocks) == len(made.tokens)
    assert len(model.memory) == len(PROMPT) + first
    assert made.accepted <= len(made.tokens)


def test_no_prompt_is_refused() -> None:
    with pytest.raises(UsageError, match="no tokens"):
        Speculation(N).run(Memory(NumpyModel(), True), None, [])


def test_ngrams_draft_what_followed_the_longest_latest_match() -> None:
    ngram = Ngram()
    assert ngram.draft([1, 2, 3, 9, 1, 2, 3], 3) == [9, 1, 2]
    assert ngram.draft([1, 2, 7, 1, 2, 8, 1, 2], 2) == [8, 1]
    # the longer match goes before the later one
    assert ngram.draft([5, 1, 2, 7, 4, 1, 2, 8, 5, 1, 2], 1) == [7]
    assert ngram.draft([1, 2, 3, 4], 3) == []
    assert ngram.draft([1], 3) == []
    assert ngram.draft([6, 6, 6, 6], 3) == [6]


def test_ngrams_leave_the_text_alone() -> None:
    made = generate(Ngram())
    assert made.tokens == PLAIN
    assert made.accepted <= made.drafted


@pytest.mark.parametrize("recurrent", [False, True])
def test_the_model_itself_as_its_draft(recurrent: bool) -> None:
    drafter = DraftModel(NumpyModel(recurrent=recurrent), lambda token: False, VOCABULARY)
    for _ in range(2):
        made = generate(drafter)
        assert made.tokens == PLAIN
        assert (made.drafted, made.accepted) == (15, 15)


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_draft_model_of_other_numbers(recurrent: bool) -> None:
    def noise(row: np.ndarray, position: int, offset: int) -> None:
        row[(position * 7) % VOCABULARY] += 6.0

    other = NumpyModel(block=noise, single=noise, recurrent=recurrent)
    made = generate(DraftModel(other, lambda token: False, VOCABULARY))
    assert made.tokens == PLAIN
    assert 0 < made.accepted < made.drafted


def test_a_draft_model_stops_at_an_end_and_at_unknown_tokens() -> None:
    stop = DraftModel(NumpyModel(), lambda token: token == PLAIN[1], VOCABULARY)
    stop.start(PROMPT)
    assert stop.draft(PROMPT, 5) == PLAIN[:2]
    small = DraftModel(NumpyModel(), lambda token: False, PLAIN[0])
    small.start(PROMPT)
    assert small.draft(PROMPT, 5) == []


def flip(at: int) -> NumpyModel:
    """Blocks, but not single tokens, predict another token at one place, by 0.01."""

    def plant(row: np.ndarray, position: int, offset: int) -> None:
        if position == len(PROMPT) - 1 + at:
            row[(PLAIN[at] + 3) % VOCABULARY] = row.max() + 0.01

    return NumpyModel(block=plant)


def test_the_targets_own_numbers_change_the_text_and_a_recheck_puts_it_back() -> None:
    made = generate(Oracle(PLAIN), flip(5))
    assert made.tokens[:5] == PLAIN[:5]
    assert made.tokens[5] != PLAIN[5]
    again = generate(Oracle(PLAIN), flip(5), recheck=0.1)
    assert again.tokens == PLAIN
    assert again.changed == 1
    assert again.rechecked >= 1
    # what is left of a draft is used: nothing is drafted twice
    assert again.drafted <= 15
    assert again.accepted == again.drafted


def test_every_row_rechecked_is_plain_decoding_at_the_price_of_blocks() -> None:
    model = NumpyModel()
    made = generate(Oracle(PLAIN), model, recheck=1e9)
    assert made.tokens == PLAIN
    assert sum(len(block.inputs) == 1 for block in made.blocks) >= N - 2
    assert made.changed == 0
    assert len(model.memory) == len(PROMPT) + N - 1


@pytest.mark.parametrize("recurrent", [False, True])
def test_rechecks_of_a_memory_that_keeps_states(recurrent: bool) -> None:
    made = generate(Wrong(PLAIN, VOCABULARY), NumpyModel(recurrent=recurrent), recheck=2.0)
    assert made.tokens == PLAIN
    assert 0 < made.rechecked < N


def wrong_once(draft: Sequence[int], rows: Sequence[Row], doubt: Doubt) -> tuple[list[int], bool]:
    """Take a draft's first token whatever the target says."""
    taken, doubtful = accept(draft, rows, doubt)
    return ([draft[0]], False) if draft and taken[:1] != [draft[0]] else (taken, doubtful)


@pytest.mark.parametrize("recurrent", [False, True])
def test_an_audit_tells_a_broken_verifier_from_the_targets_numbers(recurrent: bool) -> None:
    model = NumpyModel(recurrent=recurrent)
    memory = Memory(model, not recurrent)
    oracle = Oracle(PLAIN, wrong=[4])
    broken = Speculation(N, 3, verify=wrong_once).run(memory, oracle, PROMPT)
    assert broken.tokens[4] != PLAIN[4]
    steps = list(audit(memory, broken))
    assert next(step.position for step in steps if not step.own) == 4
    assert steps[4].row.top == PLAIN[4]
    assert [step.token for step in steps] == broken.tokens


def test_an_audit_finds_the_targets_own_flip_sound() -> None:
    model = flip(5)
    made = Speculation(N, 3).run(Memory(model, True), Oracle(PLAIN), PROMPT)
    steps = list(audit(Memory(model, True), made))
    assert all(step.own for step in steps)
    assert steps[5].row.margin == pytest.approx(0.01, abs=1e-4)


def test_an_audit_finds_lost_positions() -> None:
    model = NumpyModel()
    memory = Memory(model, True)
    made = Speculation(N, 3).run(memory, Oracle(PLAIN, wrong=[4]), PROMPT)
    late = made.blocks[2]
    made.blocks[2] = type(late)(late.start + 1, late.inputs, late.taken)
    first = sum(block.taken for block in made.blocks[:2])
    steps = list(audit(memory, made))
    assert next(step.position for step in steps if not step.own) == first


def test_an_audit_of_rechecked_text() -> None:
    model = flip(5)
    memory = Memory(model, True)
    made = Speculation(N, 3, recheck=0.1).run(memory, Oracle(PLAIN), PROMPT)
    assert all(step.own for step in audit(memory, made))
