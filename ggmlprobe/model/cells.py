"""The cells of one width: what is kept of each, and the comparison they make together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ggmlprobe.compare import hash_token
from ggmlprobe.model import stats
from ggmlprobe.model.decoder import Run
from ggmlprobe.model.logits import Change, Row, change
from ggmlprobe.model.pooling import PAIRS
from ggmlprobe.model.record import BlockComparison, Cells, Flip, OffsetCount, PairStats
from ggmlprobe.model.windows import Window

Piece = Callable[[int], bytes]


@dataclass(frozen=True)
class Cell:
    """Window t, offset j: the logits that predict AR[t + j], on both paths.

    Attributes:
        l_ar: logit of the AR token in the AR run. l_single, l_block: the same on both paths.
        hash: of the block's row, where it will be compared with another method's.
    """

    t: int
    j: int
    token: int
    l_ar: float
    l_single: float
    l_block: float
    single: int
    block: int
    single_logit: float
    block_logit: float
    margin_single: float
    margin_block: float
    nan: bool
    change: Change
    hash: str | None

    @property
    def differs(self) -> bool:
        """Whether any logit of the row differs in bits."""
        return self.change.elements_differing > 0

    @property
    def flip(self) -> bool:
        """Whether the argmax differs."""
        return self.single != self.block


def text_of(piece: bytes) -> str:
    """Text of a token; bytes that are no UTF-8 by themselves are escaped."""
    return piece.decode("utf-8", "backslashreplace")


@dataclass
class Tally:
    """Collects the cells of one width as windows come, in any order.

    Attributes:
        run: the AR run. width: of the blocks. hashed: keep a hash of each block row.
    """

    run: Run
    width: int
    hashed: bool = False
    cells: list[Cell] = field(default_factory=list)

    def add(self, window: Window) -> None:
        """Take a window's rows."""
        block = window.blocks[self.width]
        for j, (alone, row) in enumerate(zip(window.singles, block, strict=False)):
            self.cells.append(self._cell(window.t, j, alone, row))

    def _cell(self, t: int, j: int, single: Row, block: Row) -> Cell:
        token = self.run.tokens[t + j]
        return Cell(
            t, j, token, self.run.logits[t + j], single[token], block[token],
            single.top, block.top, single[single.top], block[block.top],
            single.margin, block.margin, single.nan or block.nan,
            change(single, block, token), hash_token(block.logits) if self.hashed else None,
        )  # fmt: skip

    def comparison(self, blank: BlockComparison, piece: Piece, near_tie: float) -> BlockComparison:
        """All statistics of the cells; `blank` says what they are of."""
        cells = sorted(self.cells, key=lambda cell: (cell.t, cell.j))
        flips = sorted(
            (cell for cell in cells if cell.flip), key=lambda cell: (cell.t + cell.j, cell.t)
        )
        positions = {cell.t + cell.j for cell in flips}
        full = len(self.run.tokens) - self.width + 1
        return replace(
            blank,
            prompt_tokens=len(self.run.prompt),
            cells=len(cells),
            cells_differing=sum(cell.differs for cell in cells),
            elements_differing=sum(cell.change.elements_differing for cell in cells),
            flips=len(flips),
            flip_positions=len(positions),
            first_flip=min(positions, default=None),
            flip_list=[as_flip(cell, blank, piece) for cell in flips],
            pairs=pairs_of(cells),
            windows_full=max(0, full),
            windows_flipped=len({cell.t for cell in flips if cell.t < full}),
            by_offset=by_offset([cell for cell in cells if cell.t < full]),
            margins=stats.margin_bins(
                [cell.margin_single for cell in cells],
                [cell.differs for cell in cells], [cell.flip for cell in cells],
            ),
            near_tie=near_tie,
            near_ties=sum(cell.margin_single < near_tie for cell in cells),
            severity=stats.severity(cell.l_single - cell.l_block for cell in cells),
            nan=sum(cell.nan for cell in cells),
            ar_tokens=list(self.run.tokens),
            ar_text=text_of(b"".join(map(piece, self.run.tokens))),
            **changes(cells),
        )  # fmt: skip


def as_flip(cell: Cell, blank: BlockComparison, piece: Piece) -> Flip:
    """A flipped cell as the record has it."""
    return Flip(
        blank.config, blank.prompt, blank.width, blank.prefix, cell.t, cell.j, cell.t + cell.j,
        cell.single, text_of(piece(cell.single)), cell.single_logit,
        cell.block, text_of(piece(cell.block)), cell.block_logit,
        cell.token, text_of(piece(cell.token)), cell.l_ar, cell.l_single, cell.l_block,
        cell.margin_single, cell.margin_block, cell.single != cell.token,
    )  # fmt: skip


def pairs_of(cells: Sequence[Cell]) -> list[PairStats]:
    """The three pairs over all cells."""
    ar, single, block = (
        [getattr(cell, name) for cell in cells] for name in ("l_ar", "l_single", "l_block")
    )
    paths = ((ar, single), (ar, block), (single, block))
    return [stats.pair_stats(name, *pair) for name, pair in zip(PAIRS, paths, strict=True)]


def by_offset(cells: Iterable[Cell]) -> list[OffsetCount]:
    """Counts per offset j."""
    groups: dict[int, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.j, []).append(cell)
    return [
        OffsetCount(j, len(group), sum(c.differs for c in group), sum(c.flip for c in group))
        for j, group in sorted(groups.items())
    ]


def changes(cells: Sequence[Cell]) -> dict[str, Any]:
    """Means and maxima of what the block path changed."""
    centred, centred_max, probability, kl = np.array(
        [(c.change.centred, c.change.centred_max, c.change.probability, c.change.kl) for c in cells]
    ).T
    return {
        "centred_mean_abs": float(centred.mean()),
        "centred_max": float(centred_max.max()),
        "probability_change_mean": float(probability.mean()),
        "probability_change_max": float(probability.max()),
        "kl_mean": float(kl.mean()),
        "kl_max": float(kl.max()),
    }


def columns(cells: Iterable[Cell]) -> Cells:
    """Every cell for the record."""
    there = sorted(cells, key=lambda cell: (cell.t, cell.j))
    return Cells(
        [c.t for c in there], [c.j for c in there], [c.l_ar for c in there],
        [c.l_single for c in there], [c.l_block for c in there], [c.single for c in there],
        [c.block for c in there], [c.change.elements_differing for c in there],
        [c.margin_single for c in there], [c.change.probability for c in there],
        [c.change.kl for c in there],
    )  # fmt: skip


def drift(ours: Sequence[Cell], theirs: Sequence[Cell]) -> tuple[PairStats, int]:
    """How far two methods' blocks are apart where their prefixes differ: in the cells of t > 0.

    Returns:
        Statistics of l_block of `ours` minus `theirs`; cells whose rows differ in bits.
    """
    other = {(cell.t, cell.j): cell for cell in theirs}
    pairs = [(cell, other[cell.t, cell.j]) for cell in ours if cell.t > 0]
    return (
        stats.pair_stats(
            "l_block prefill - l_block ar", [a.l_block for a, _ in pairs],
            [b.l_block for _, b in pairs],
        ),
        sum(a.hash != b.hash for a, b in pairs),
    )  # fmt: skip
