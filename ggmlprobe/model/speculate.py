"""Greedy generation, plain and speculative, on a decoder: what is drafted, verified, taken back.

A generation keeps every block that was evaluated and how many tokens were taken from it, so that
`audit` can go the same way again and tell whether each token is what the target's numbers say.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ggmlprobe.errors import ComputeFailed, UsageError
from ggmlprobe.model.decoder import Decoder, restart
from ggmlprobe.model.logits import Row
from ggmlprobe.model.windows import rows_of

Doubt = Callable[[Row], bool]
Verify = Callable[[Sequence[int], Sequence[Row], Doubt], tuple[list[int], bool]]
"""(draft, rows of the block, doubt) to (tokens taken, whether the next row is in doubt)."""


class Drafter(Protocol):
    """Guesses what comes next."""

    def start(self, prompt: Sequence[int]) -> None:
        """Get ready for a prompt; not timed."""

    def draft(self, tokens: Sequence[int], most: int) -> list[int]:
        """At most that many tokens to come after these; none where it has no guess."""


@dataclass(frozen=True)
class Block:
    """One evaluation.

    Attributes:
        start: position of its first token. inputs: its tokens.
        taken: how many rows gave a token; the others were taken back.
    """

    start: int
    inputs: list[int]
    taken: int


@dataclass
class Generation:
    """What was generated, and how.

    Attributes:
        tokens: generated; an end-of-generation token is the last.
        drafts: blocks with a draft. drafted, accepted: tokens of drafts.
        rechecked: rows in doubt that were evaluated alone. changed: of those, with another argmax.
        nan: rows with a NaN that a token was taken from.
        seconds: from the prompt's last token on.
    """

    prompt: list[int]
    tokens: list[int] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    rechecked: int = 0
    changed: int = 0
    nan: int = 0
    seconds: float = 0.0

    @property
    def history(self) -> list[int]:
        """Prompt and tokens."""
        return self.prompt + self.tokens


class Memory:
    """The target's memory, got back either by forgetting positions or from a saved state."""

    def __init__(self, decoder: Decoder, rollback: bool) -> None:
        """Take a decoder; rollback: it can forget positions, so that no state need be saved."""
        self.decoder, self.can_roll_back = decoder, rollback
        self._state: tuple[bytes, int, list[int]] | None = None

    def block(self, tokens: Sequence[int], start: int) -> list[Row]:
        """Evaluate tokens as one block; a row for each."""
        if len(tokens) > 1 and not self.can_roll_back:
            self._state = self.decoder.save(), start, list(tokens)
        return rows_of(self.decoder, tokens, start)

    def rewind(self, pos: int) -> None:
        """Forget what the last block wrote from a position on.

        A state is evaluated anew up to there, as one block: what upstream does with a checkpoint.

        Raises:
            ComputeFailed: neither way is there.
        """
        if self.decoder.rollback(pos):
            return
        if self._state is None:
            raise ComputeFailed("this memory cannot be rolled back, and no state was saved")
        state, start, tokens = self._state
        self.decoder.restore(state)
        if pos > start:
            self.decoder.decode(tokens[: pos - start], start, "none")


def accept(
    draft: Sequence[int], rows: Sequence[Row], doubt: Doubt
) -> tuple[list[int], bool]:  # fmt: skip
    """Take the target's own token of each row until a draft's token is not it."""
    taken: list[int] = []
    for row, guess in zip(rows, [*draft, None], strict=True):
        if doubt(row):
            return taken, True
        taken.append(row.top)
        if row.top != guess:
            break
    return taken, False


def no_doubt(row: Row) -> bool:
    """Trust every row."""
    return False


@dataclass
class Speculation:
    """How to generate.

    Attributes:
        n: tokens. n_max: most tokens of a draft; 0 for plain generation.
        ends: whether a token ends the text.
        recheck: top-2 margin under which a row of a block is evaluated again alone; 0 for never.
        verify: another rule of acceptance, to plant a broken one.
    """

    n: int
    n_max: int = 0
    ends: Callable[[int], bool] = lambda token: False
    recheck: float = 0.0
    verify: Verify = accept
    clock: Callable[[], float] = time.perf_counter

    def run(self, memory: Memory, drafter: Drafter | None, prompt: Sequence[int]) -> Generation:
        """Generate after a prompt, from an empty memory.

        Raises:
            UsageError: a prompt without tokens.
        """
        if not prompt:
            raise UsageError("the prompt has no tokens: give a longer one")
        made = Generation(list(prompt))
        restart(memory.decoder, prompt[:-1])
        if drafter is not None:
            drafter.start(prompt)
        began = self.clock()
        left: list[int] = []
        while len(made.tokens) < self.n and not (made.tokens and self.ends(made.tokens[-1])):
            left = self._round(memory, drafter, made, left)
        made.seconds = self.clock() - began
        return made

    def _round(
        self, memory: Memory, drafter: Drafter | None, made: Generation, left: list[int]
    ) -> list[int]:
        """Draft, evaluate, take; returns what is left of a draft after a recheck."""
        history = made.history
        most = min(self.n_max, self.n - len(made.tokens) - 1)
        draft = left[: max(0, most)]
        if not draft and drafter is not None and most > 0:
            draft = drafter.draft(history, most)[:most]
            made.drafts += bool(draft)
            made.drafted += len(draft)
        start, inputs = len(history) - 1, [history[-1], *draft]
        rows = memory.block(inputs, start)
        doubt = self._doubtful if draft and self.recheck else no_doubt
        taken, doubtful = self.verify(draft, rows, doubt)
        self._take(made, Block(start, inputs, len(taken)), rows, draft, taken)
        if len(made.blocks[-1].inputs) > made.blocks[-1].taken:
            memory.rewind(len(made.history) - 1)
        if doubtful and not self._ended(made):
            return self._alone(memory, made, rows[len(taken)], draft[len(taken) :])
        return []

    def _doubtful(self, row: Row) -> bool:
        return row.margin < self.recheck

    def _ended(self, made: Generation) -> bool:
        return bool(made.tokens) and self.ends(made.tokens[-1])

    def _take(
        self, made: Generation, block: Block, rows: Sequence[Row], draft: Sequence[int],
        taken: list[int],
    ) -> None:  # fmt: skip
        """Take tokens, up to one that ends the text."""
        end = next((i + 1 for i, token in enumerate(taken) if self.ends(token)), len(taken))
        made.tokens += taken[:end]
        made.blocks.append(Block(block.start, block.inputs, end))
        made.accepted += sum(a == b for a, b in zip(draft, taken[:end], strict=False))
        made.nan += sum(math.isnan(row[row.top]) for row in rows[:end])

    def _alone(
        self, memory: Memory, made: Generation, row: Row, draft: Sequence[int]
    ) -> list[int]:  # fmt: skip
        """Evaluate the token of a row again alone; what is left of the draft if it holds."""
        start, token = len(made.history) - 1, made.history[-1]
        (again,) = memory.block([token], start)
        made.rechecked += 1
        made.changed += again.top != row.top
        self._take(made, Block(start, [token], 1), [again], draft, [again.top])
        return list(draft[1:]) if draft and again.top == draft[0] else []


@dataclass(frozen=True)
class Step:
    """A token of a generation, and the row that it was taken from, evaluated anew.

    Attributes:
        own: it is the row's argmax, and the row was evaluated after the very tokens of the text.
    """

    position: int
    token: int
    row: Row
    own: bool


def audit(memory: Memory, made: Generation) -> Iterator[Step]:
    """Go the way of a generation again, and look at each token anew.

    Every block is evaluated from the text so far and not from what the generation kept, so that a
    verifier that took another token, or lost count of positions, shows.
    """
    restart(memory.decoder, made.prompt[:-1])
    position = 0
    for block in made.blocks:
        text = made.prompt + made.tokens[:position]
        rows = memory.block(block.inputs, len(text) - 1)
        sound = block.start == len(text) - 1 and block.inputs[0] == text[-1]
        for i, row in enumerate(rows[: block.taken]):
            sound = sound and block.inputs[1 : i + 1] == made.tokens[position : position + i]
            token = made.tokens[position + i]
            yield Step(position + i, token, row, sound and row.top == token)
        position += block.taken
        if len(block.inputs) > block.taken:
            memory.rewind(len(made.prompt) + position - 1)
