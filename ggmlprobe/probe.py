"""The measurement: serial width-1 runs against blocks of W tokens, on callables.

Nothing here knows ggml: an evaluator is three functions, so the whole algorithm is tested with
plain numpy functions and planted faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ggmlprobe import compare
from ggmlprobe.compare import Difference

Evaluate = Callable[[int, int], np.ndarray]
Reference = Callable[[int], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Outcome:
    """What one width gave for one seed; for a check "serial" is the same width the plain way.

    Attributes:
        difference: serial against block, over the tokens they share.
        hashes: of the block's tokens; at width 1 of the serial reference of all tokens.
        serial_repeats: the serial runs of these tokens gave the same bits twice.
        width_repeats: the block did.
        nan: NaN elements in either path, unwritten ones apart.
        unwritten: elements of either path that still hold the fill pattern.
        nmse_serial: of the serial path against float64; nmse_width: of the block.
        max_err_scaled: largest |difference| in units of 2^-24 * sum |w x|.
    """

    width: int
    difference: Difference
    hashes: list[str]
    serial_repeats: bool
    width_repeats: bool
    nan: int
    unwritten: int
    nmse_serial: float
    nmse_width: float
    max_err_scaled: float


class Serial:
    """Width-1 runs of every token, made when first needed, each twice, shared by all widths.

    Args:
        evaluate: (first token, count) to float32 [count, E].
        reference: token to (float64 output [E], magnitude [E]).
    """

    def __init__(self, evaluate: Evaluate, reference: Reference) -> None:
        self._evaluate, self._reference = evaluate, reference
        self._out: list[np.ndarray] = []
        self._repeats: list[bool] = []
        self._errors: list[tuple[float, float]] = []

    def run_to(self, tokens: int) -> None:
        """Evaluate the tokens below `tokens` that have not been."""
        for token in range(len(self._out), tokens):
            out = self._evaluate(token, 1)[0]
            again = self._evaluate(token, 1)[0]
            self._out.append(out)
            self._repeats.append(out.tobytes() == again.tobytes())
            self._errors.append(compare.sum_sq_error(out, self._reference(token)[0]))

    def outputs(self, tokens: int) -> np.ndarray:
        """Outputs of the first tokens: float32 [tokens, E]."""
        return np.stack(self._out[:tokens])

    def repeats(self, tokens: int) -> bool:
        """Whether the first tokens gave the same bits twice."""
        return all(self._repeats[:tokens])

    def errors(self, tokens: int) -> list[tuple[float, float]]:
        """Squared error and squared reference of each of the first tokens."""
        return self._errors[:tokens]


def total_nmse(errors: Sequence[tuple[float, float]]) -> float:
    """NMSE over tokens from their sums."""
    return compare.nmse(sum(e for e, _ in errors), sum(r for _, r in errors))


def specials(*outputs: np.ndarray) -> tuple[int, int]:
    """(NaN elements that were written, elements never written) over all outputs."""
    unwritten = sum(compare.unwritten(out) for out in outputs)
    nan = sum(int(np.isnan(out).sum()) for out in outputs)
    return nan - unwritten, unwritten


def serial_outcome(serial: Serial, tokens: int) -> Outcome:
    """The width-1 row: the serial reference of all tokens against itself run again."""
    out = serial.outputs(tokens)
    nan, unwritten = specials(out)
    repeats, nmse = serial.repeats(tokens), total_nmse(serial.errors(tokens))
    return Outcome(
        width=1, difference=Difference(elements=out.size),
        hashes=[compare.hash_token(row) for row in out],
        serial_repeats=repeats, width_repeats=repeats, nan=nan, unwritten=unwritten,
        nmse_serial=nmse, nmse_width=nmse, max_err_scaled=0.0,
    )  # fmt: skip


def block_outcome(serial: Serial, block: Evaluate, reference: Reference, width: int) -> Outcome:
    """Evaluate a block of `width` tokens twice and compare it with the serial runs."""
    alone, errors = serial.outputs(width), serial.errors(width)
    return _compared(alone, errors, serial.repeats(width), block, reference, width)


def paired_outcome(
    evaluate: Evaluate, block: Evaluate, reference: Reference, width: int
) -> Outcome:
    """Evaluate the same `width` tokens in two ways, each twice, and compare them."""
    base, again = evaluate(0, width), evaluate(0, width)
    errors = [compare.sum_sq_error(row, reference(t)[0]) for t, row in enumerate(base)]
    repeats = base.tobytes() == again.tobytes()
    return _compared(base, errors, repeats, block, reference, width)


def _compared(
    base: np.ndarray,
    errors: list[tuple[float, float]],
    base_repeats: bool,
    block: Evaluate,
    reference: Reference,
    width: int,
) -> Outcome:
    """Evaluate a block twice and compare it with outputs of the same tokens."""
    out, again = block(0, width), block(0, width)
    difference = compare.compare(base, out)
    errors_width, scaled = list(errors), 0.0
    for token in difference.columns:
        exact, magnitude = reference(token)
        errors_width[token] = compare.sum_sq_error(out[token], exact)
        scaled = max(scaled, compare.max_err_scaled(base[token], out[token], magnitude))
    nan, unwritten = specials(base, out)
    return Outcome(
        width=width, difference=difference, hashes=[compare.hash_token(row) for row in out],
        serial_repeats=base_repeats, width_repeats=out.tobytes() == again.tobytes(),
        nan=nan, unwritten=unwritten, nmse_serial=total_nmse(errors),
        nmse_width=total_nmse(errors_width), max_err_scaled=scaled,
    )  # fmt: skip


def probe(
    evaluate: Evaluate,
    reference: Reference,
    widths: Sequence[int],
    tokens: int,
    *,
    block: Evaluate | None = None,
    begin: Callable[[int], None] = lambda width: None,
    row_errors: tuple[type[Exception], ...] = (),
    failed: Callable[[int, Exception], None] = lambda width, error: None,
) -> Iterator[Outcome]:
    """Compare each width with the serial runs, for the inputs that are loaded.

    Args:
        evaluate: (first token, count) to float32 [count, E].
        reference: token to (float64 output [E], magnitude [E]).
        widths: ascending widths to run; 1 is the serial reference itself.
        tokens: all tokens, the widest width of the case.
        block: for a check, evaluates the same tokens another way (another n_kv): then each width
            is compared with itself, and nothing with width 1.
        begin: called before each width's runs, with 1 before the serial runs.
        row_errors: exceptions that end one width and not the run.
        failed: called with the width and such an exception.

    Yields:
        An outcome per width, in order; the serial reference first where its hashes are needed.
    """
    serial = Serial(evaluate, reference)
    if block is None:
        begin(1)
        serial.run_to(tokens)
        yield serial_outcome(serial, tokens)
    for width in widths:
        if block is None and width == 1:
            continue
        begin(width)
        try:
            if block is None:
                yield block_outcome(serial, evaluate, reference, width)
            else:
                yield paired_outcome(evaluate, block, reference, width)
        except row_errors as error:
            failed(width, error)
