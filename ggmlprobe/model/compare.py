"""Single against block decode of one prompt: every window, every width, both prefixes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ggmlprobe.model import cells
from ggmlprobe.model.cells import Piece, Tally
from ggmlprobe.model.decoder import Decoder, Run, greedy
from ggmlprobe.model.pooling import NEAR_TIE
from ggmlprobe.model.record import BlockComparison, Check
from ggmlprobe.model.windows import (
    Agreement,
    Begin,
    Prefill,
    Rollback,
    SavedState,
    Window,
    agreement,
)
from ggmlprobe.verdict import Verdict

PREFIXES = ("prefill", "ar")


@dataclass(frozen=True)
class Job:
    """One prompt to compare.

    Attributes:
        blank: config, prompt, kind, prompt_hash and n of the comparisons to make.
        prompt: its tokens.
        todo: the (width, prefix) pairs to compare.
        rollback: the memory can go back: neither recurrent nor with a sliding window.
        piece: token to its bytes.
        near_tie: margin under which a cell is a near-tie.
        keep_cells: put every cell into the comparisons.
    """

    blank: BlockComparison
    prompt: Sequence[int]
    todo: Sequence[tuple[int, str]]
    rollback: bool
    piece: Piece
    near_tie: float = NEAR_TIE
    keep_cells: bool = False

    def widths(self, prefix: str) -> list[int]:
        """Widths to compare with a prefix."""
        return sorted({width for width, name in self.todo if name == prefix})


@dataclass
class Pass:
    """The windows of one prefix.

    Attributes:
        seconds: of the AR run and of every window.
        tallies: by width. first: window 0.
    """

    job: Job
    prefix: str
    seconds: float
    tallies: dict[int, Tally] = field(default_factory=dict)
    first: Window | None = None

    def count(self, run: Run, method: Prefill | Rollback | SavedState) -> None:
        """Decode every window and take its cells."""
        widths = self.job.widths(self.prefix)
        # rows are hashed only where the other prefix's will be compared with them
        both = set(self.job.widths("prefill")) & set(self.job.widths("ar"))
        self.tallies = {width: Tally(run, width, width in both) for width in widths}
        began = time.perf_counter()
        for window in method.windows(run, widths):
            if window.t == 0:
                self.first = window
            for tally in self.tallies.values():
                tally.add(window)
        self.seconds += time.perf_counter() - began


def compare(
    job: Job, single: Decoder, block: Decoder, begin: Begin = lambda phase, window, width: None
) -> Iterator[BlockComparison]:
    """Compare a prompt at every width, with every prefix asked for.

    The AR run is made once, by `single`, and the windows of prefix ar come first, from its state.

    Args:
        single: decodes token by token, and everything of prefix ar.
        block: decodes the blocks of prefix prefill; may be the same.
        begin: called before what can die, with phase, window and width.

    Yields:
        A comparison for each entry of `job.todo`.
    """
    state = (Rollback if job.rollback else SavedState)(single, begin)
    seed = Prefill(single, block, begin)
    passes: dict[str, Pass] = {}
    run, spent = ar_run(job, single, state if job.widths("ar") else None, begin)
    for prefix, method in (("ar", state), ("prefill", seed)):
        if job.widths(prefix):
            passes[prefix] = Pass(job, prefix, spent)
            passes[prefix].count(run, method)
    # window 0 is the same by both methods, and what the other checks are made on
    missing = [width for width in job.widths("ar") if width not in job.widths("prefill")]
    zero = [seed.window(run, missing, 0)] if missing else []
    zero += [each.first for name, each in passes.items() if name == "prefill" and each.first]
    for width, prefix in job.todo:
        checks = checks_of(seed, width)
        if prefix == "ar":
            checks += state_checks(state, passes["ar"], zero, width)
        yield finished(job, passes, width, prefix, checks, (state if prefix == "ar" else seed).name)


def ar_run(
    job: Job, single: Decoder, state: Rollback | SavedState | None, begin: Begin
) -> tuple[Run, float]:
    """The AR run and its seconds; all rows are kept where prefix ar needs them."""
    n = job.blank.n
    save = state.before(n) if state else lambda step: None
    keep = None if state else max(width for width, _ in job.todo)

    def before(step: int) -> None:
        begin("ar", step, None)
        save(step)

    began = time.perf_counter()
    begin("prefill", 0, None)
    run = greedy(single, job.prompt, n, keep, before)
    return run, time.perf_counter() - began


def check(name: str, found: Agreement) -> Check:
    """An agreement as the record has it."""
    return Check(name, found.rows, found.differing, found.max_abs)


def checks_of(seed: Prefill, width: int) -> list[Check]:
    """Whether window 0 gives the same bits when it is computed again."""
    return [
        check("t=0 single", seed.single_check[width]),
        check("t=0 block", seed.block_check[width]),
    ]


def state_checks(
    state: Rollback | SavedState, ar: Pass, zero: Sequence[Window], width: int
) -> list[Check]:
    """Whether states are got back exactly, and window 0 is that of the seed's method."""
    checks = [check("state", state.state_check)] if state.state_check.rows else []
    theirs = next(window for window in zero if width in window.blocks)
    assert ar.first is not None
    ours = ar.first.blocks[width]
    both = agreement(ours, theirs.blocks[width])
    both.add(ar.first.singles[: len(ours)], theirs.singles[: len(ours)])
    return [*checks, check("t=0 methods", both)]


def finished(
    job: Job, passes: dict[str, Pass], width: int, prefix: str, checks: list[Check], method: str
) -> BlockComparison:
    """The comparison of one width and prefix."""
    each = passes[prefix]
    tally = each.tallies[width]
    blank = replace(job.blank, width=width, prefix=prefix, method=method, checks=checks)
    made = tally.comparison(blank, job.piece, job.near_tie)
    other = passes.get("prefill")
    if prefix == "ar" and other and width in other.tallies:
        apart, differing = cells.drift(other.tallies[width].cells, tally.cells)
        made = replace(made, drift=apart, drift_cells_differing=differing)
    verdict, detail = judge(made)
    values = cells.columns(tally.cells) if job.keep_cells else None
    return replace(made, verdict=verdict, detail=detail, cell_values=values, seconds=each.seconds)


def judge(made: BlockComparison) -> tuple[Verdict, str | None]:
    """(verdict, why nothing is claimed about the width, or None)."""
    if made.nan:
        return Verdict.NAN, f"{made.nan} cells have a NaN logit"
    for each in made.checks:
        if each.rows_differing:
            apart = f"{each.rows_differing} of {each.rows} rows differ"
            return Verdict.NONDETERMINISTIC, f"check {each.name}: {apart}"
    return (Verdict.MISMATCH if made.cells_differing else Verdict.INVARIANT), None
