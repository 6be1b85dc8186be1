"""The windows of a run, each decoded token by token and as a block, from the same prefix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ggmlprobe.errors import ComputeFailed
from ggmlprobe.model.decoder import Decoder, Run, restart
from ggmlprobe.model.logits import Row

Begin = Callable[[str, int, int | None], None]
"""Called before something runs, with its phase, window and width: what a death is blamed on."""


@dataclass(frozen=True)
class Window:
    """Window t of a run.

    Attributes:
        singles: the single path's rows, as many as the widest block has.
        blocks: width to the block's rows; the last windows of a run are truncated.
    """

    t: int
    singles: Sequence[Row]
    blocks: Mapping[int, Sequence[Row]]


@dataclass
class Agreement:
    """Pairs of rows that must be the same in every bit.

    Attributes:
        rows: pairs seen. differing: of those, with a differing bit. max_abs: largest difference.
    """

    rows: int = 0
    differing: int = 0
    max_abs: float = 0.0

    def add(self, ours: Sequence[Row], theirs: Sequence[Row]) -> None:
        """Compare rows in pairs."""
        for one, other in zip(ours, theirs, strict=True):
            self.rows += 1
            if not one.same_bits(other):
                self.differing += 1
                difference = abs(one.logits - other.logits).max()
                self.max_abs = max(self.max_abs, float(difference))


def agreement(ours: Sequence[Row], theirs: Sequence[Row]) -> Agreement:
    """Compare rows in pairs."""
    made = Agreement()
    made.add(ours, theirs)
    return made


def rows_of(decoder: Decoder, tokens: Sequence[int], position: int) -> list[Row]:
    """Evaluate tokens as one block; a row for each."""
    return [Row(row) for row in decoder.decode(tokens, position, "all")]


def steps_of(decoder: Decoder, tokens: Sequence[int], position: int) -> list[Row]:
    """Evaluate tokens one by one; a row for each."""
    return [Row(decoder.decode([token], position + i, "last")[0]) for i, token in enumerate(tokens)]


@dataclass
class Prefill:
    """The seed's method: both paths wipe and prefill the same prefix before every window.

    The single path of a window is shared by all widths. `single` and `block` may be one decoder.

    Attributes:
        single_check: per width, window 0's single path against the AR run: the same graphs again.
        block_check: per width, window 0's block against the same block computed again.
    """

    single: Decoder
    block: Decoder
    begin: Begin = lambda phase, window, width: None
    name: str = "prefill"
    single_check: dict[int, Agreement] = field(default_factory=dict)
    block_check: dict[int, Agreement] = field(default_factory=dict)

    def windows(self, run: Run, widths: Sequence[int]) -> Iterator[Window]:
        """Every window of the run, in order."""
        for t in range(len(run.tokens)):
            yield self.window(run, widths, t)

    def window(self, run: Run, widths: Sequence[int], t: int) -> Window:
        """One window; t = 0 is checked."""
        self.begin("single", t, None)
        restart(self.single, run.prefix(t))
        singles = steps_of(self.single, run.inputs(t, max(widths)), run.start(t))
        blocks = {width: self._block(run, t, width) for width in widths}
        if t == 0:
            for width, rows in blocks.items():
                alone = singles[: len(rows)]
                self.single_check[width] = agreement(alone, run.rows[: len(rows)])
                self.block_check[width] = agreement(rows, self._block(run, t, width))
        return Window(t, singles, blocks)

    def _block(self, run: Run, t: int, width: int) -> list[Row]:
        self.begin("block", t, width)
        restart(self.block, run.prefix(t))
        return rows_of(self.block, run.inputs(t, width), run.start(t))


@dataclass
class Rollback:
    """Blocks from the AR run's own state, got back by forgetting what came after it.

    Windows go from the last to the first: forgetting needs nothing to be computed again, and what
    a block wrote lies behind the next window's prefix. Two states saved during the run show
    whether a rolled-back state is the AR run's.

    Attributes:
        state_check: blocks from rolled-back states against those from saved ones.
    """

    decoder: Decoder
    begin: Begin = lambda phase, window, width: None
    name: str = "rollback"
    state_check: Agreement = field(default_factory=Agreement)
    saved: dict[int, bytes] = field(default_factory=dict)

    def before(self, n: int) -> Callable[[int], None]:
        """What `greedy` shall call, to save the states of a run of n tokens."""

        def save(step: int) -> None:
            if step in (n // 3, 2 * n // 3):
                self.saved[step] = self.decoder.save()

        return save

    def windows(self, run: Run, widths: Sequence[int]) -> Iterator[Window]:
        """Every window, the last first; to be run right after the AR run."""
        for t in reversed(range(len(run.tokens))):
            blocks = {}
            for width in widths:
                self.begin("block", t, width)
                if not self.decoder.rollback(run.start(t)):
                    raise ComputeFailed("this memory cannot be rolled back: use --prefix prefill")
                blocks[width] = rows_of(self.decoder, run.inputs(t, width), run.start(t))
            if t in self.saved:
                self.decoder.restore(self.saved.pop(t))
                width = max(widths)
                again = rows_of(self.decoder, run.inputs(t, width), run.start(t))
                self.state_check.add(blocks[width], again)
            yield Window(t, run.rows[t : t + max(widths)], blocks)


@dataclass
class SavedState:
    """Blocks from the AR run's own state where memory cannot roll back: one saved state at a time.

    The AR run is made once more; every window's state is saved, each block starts from it, and
    the run's next step, from the restored state too, must give the AR run's own bits.

    Attributes:
        state_check: steps from restored states against the AR run's rows.
    """

    decoder: Decoder
    begin: Begin = lambda phase, window, width: None
    name: str = "saved state"
    state_check: Agreement = field(default_factory=Agreement)

    def before(self, n: int) -> Callable[[int], None]:
        """Nothing to do during the AR run."""
        return lambda step: None

    def windows(self, run: Run, widths: Sequence[int]) -> Iterator[Window]:
        """Every window of the run, in order."""
        restart(self.decoder, run.prefix(0))
        for t in range(len(run.tokens)):
            state = self.decoder.save()
            blocks = {}
            for width in widths:
                self.begin("block", t, width)
                blocks[width] = rows_of(self.decoder, run.inputs(t, width), run.start(t))
                self.decoder.restore(state)
            step = steps_of(self.decoder, run.inputs(t, 1), run.start(t))
            self.state_check.add(step, run.rows[t : t + 1])
            yield Window(t, run.rows[t : t + max(widths)], blocks)
