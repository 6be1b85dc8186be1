"""What commands on whole models add to a record: fields of `ggmlprobe.record`, defined once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ggmlprobe.verdict import Verdict


@dataclass(frozen=True)
class ModelSettings:
    """The model and how it was loaded."""

    file: str = field(metadata={"doc": "The GGUF file, as it was given."})
    description: str = field(metadata={"doc": "llama_model_desc: architecture, size, type."})
    size_bytes: int = field(metadata={"doc": "llama_model_size."})
    n_vocab: int = field(metadata={"doc": "Tokens in the vocabulary, so logits in a row."})
    ngl: int = field(default=0, metadata={"doc": "n_gpu_layers."})
    fa: str = field(
        default="auto", metadata={"doc": "Flash attention.", "enum": ["on", "off", "auto"]}
    )
    type_k: str = field(default="f16", metadata={"doc": "Type of the K cache."})
    type_v: str = field(default="f16", metadata={"doc": "Type of the V cache."})
    extra_bufts: bool = field(
        default=True, metadata={"doc": "Weights may lie in repacking buffer types."}
    )
    n_ubatch: int = field(default=512, metadata={"doc": "Tokens of one graph.", "minimum": 1})


@dataclass(frozen=True)
class PairStats:
    """Differences of two paths' logits of the AR token, over cells; variances divide by cells."""

    pair: str = field(metadata={"doc": "The two paths: l_ar - l_single, ..."})
    cells: int = field(metadata={"doc": "Cells pooled."})
    mean: float | None = field(metadata={"doc": "Mean difference."})
    var: float | None = field(metadata={"doc": "Variance of the difference."})
    mean_abs: float | None = field(metadata={"doc": "Mean absolute difference, mean|d|."})
    var_abs: float | None = field(metadata={"doc": "Variance of the absolute difference, var|d|."})


@dataclass(frozen=True)
class Flip:
    """A cell whose argmax the block decode changed."""

    config: str = field(metadata={"doc": "Id of the config."})
    prompt: str = field(metadata={"doc": "Name of the prompt."})
    width: int = field(metadata={"doc": "Width of the blocks.", "minimum": 1})
    prefix: str = field(metadata={"doc": "What wrote the prefix: prefill or ar."})
    window: int = field(metadata={"doc": "Window t."})
    offset: int = field(metadata={"doc": "Offset j in the window."})
    position: int = field(metadata={"doc": "Generated token that the cell predicts, t + j."})
    single_token: int = field(metadata={"doc": "Argmax of the single path."})
    single_piece: str = field(metadata={"doc": "Its text; bytes that are no UTF-8 escaped."})
    single_logit: float | None = field(metadata={"doc": "Its logit in the single path."})
    block_token: int = field(metadata={"doc": "Argmax of the block path."})
    block_piece: str = field(metadata={"doc": "Its text."})
    block_logit: float | None = field(metadata={"doc": "Its logit in the block path."})
    ar_token: int = field(metadata={"doc": "The token the AR run took here."})
    ar_piece: str = field(metadata={"doc": "Its text."})
    l_ar: float | None = field(metadata={"doc": "Logit of the AR token in the AR run."})
    l_single: float | None = field(metadata={"doc": "Logit of the AR token in the single path."})
    l_block: float | None = field(metadata={"doc": "Logit of the AR token in the block path."})
    margin_single: float | None = field(
        metadata={"doc": "Largest logit minus the second, single path."}
    )
    margin_block: float | None = field(
        metadata={"doc": "Largest logit minus the second, block path."}
    )
    off_trajectory: bool = field(
        metadata={
            "doc": "The single path's argmax is not the AR token either: "
            "drift of prefill against incremental decode, not an effect of the block."
        }
    )


@dataclass(frozen=True)
class OffsetCount:
    """Cells of full windows at one offset."""

    offset: int = field(metadata={"doc": "Offset j in the window."})
    cells: int = field(metadata={"doc": "Cells at it."})
    cells_differing: int = field(metadata={"doc": "Of those, with a differing bit in the row."})
    flips: int = field(metadata={"doc": "Of those, with another argmax."})


@dataclass(frozen=True)
class MarginBin:
    """Cells whose single path leads by a margin in [low, high)."""

    low: float = field(metadata={"doc": "Least margin of the largest logit over the second."})
    high: float | None = field(metadata={"doc": "Margin of the next bin; null is no limit."})
    cells: int = field(metadata={"doc": "Cells in it."})
    cells_differing: int = field(metadata={"doc": "Of those, with a differing bit in the row."})
    flips: int = field(metadata={"doc": "Of those, with another argmax."})


@dataclass(frozen=True)
class Check:
    """Rows that must agree in every bit, and whether they do."""

    name: str = field(
        metadata={
            "doc": "t=0 single: the single path of window 0 against the AR run, one graph "
            "computed twice; t=0 block: a block of window 0 against the same block again; "
            "state: rows from a rolled-back or restored state against the AR run's own; "
            "t=0 methods: window 0 of --prefix ar against the seed's method."
        }
    )
    rows: int = field(metadata={"doc": "Rows compared over the whole vocabulary."})
    rows_differing: int = field(metadata={"doc": "Of those, with a differing bit."})
    max_abs: float | None = field(default=None, metadata={"doc": "Largest absolute difference."})


@dataclass(frozen=True)
class Cells:
    """Every cell, a list per field, in order of window and offset."""

    window: list[int] = field(default_factory=list, metadata={"doc": "Window t."})
    offset: list[int] = field(default_factory=list, metadata={"doc": "Offset j."})
    l_ar: list[float | None] = field(
        default_factory=list, metadata={"doc": "Logit of the AR token in the AR run."}
    )
    l_single: list[float | None] = field(
        default_factory=list, metadata={"doc": "The same in the single path."}
    )
    l_block: list[float | None] = field(
        default_factory=list, metadata={"doc": "The same in the block path."}
    )
    single_token: list[int] = field(
        default_factory=list, metadata={"doc": "Argmax of the single path."}
    )
    block_token: list[int] = field(
        default_factory=list, metadata={"doc": "Argmax of the block path."}
    )
    elements_differing: list[int] = field(
        default_factory=list, metadata={"doc": "Logits of the row that differ in bits."}
    )
    margin: list[float | None] = field(
        default_factory=list, metadata={"doc": "Top-2 margin of the single path."}
    )
    probability_change: list[float | None] = field(
        default_factory=list, metadata={"doc": "Largest change of any token's probability."}
    )
    kl: list[float | None] = field(
        default_factory=list, metadata={"doc": "KL divergence of the block from the single path."}
    )


@dataclass(frozen=True)
class BlockComparison:
    """Single against block decode of one prompt at one width in one config."""

    config: str = field(metadata={"doc": "Id of the config."})
    prompt: str = field(metadata={"doc": "Name of the prompt."})
    kind: str = field(metadata={"doc": "Its kind: prose, code, edit, reasoning, given."})
    prompt_hash: str = field(metadata={"doc": "BLAKE2b-64 of its text as given, hexadecimal."})
    chat: bool = field(metadata={"doc": "It was put into the model's chat template."})
    n: int = field(metadata={"doc": "Tokens generated.", "minimum": 1})
    width: int = field(metadata={"doc": "Tokens of a block.", "minimum": 1})
    prefix: str = field(
        metadata={
            "doc": "What wrote the prefix: prefill (wiped and prefilled before every window) "
            "or ar (the AR run's own state).",
            "enum": ["prefill", "ar"],
        }
    )
    verdict: str = field(
        metadata={"doc": "Outcome; see verdicts.", "enum": [str(verdict) for verdict in Verdict]}
    )
    detail: str | None = field(
        default=None, metadata={"doc": "Why there is no comparison, in one line."}
    )
    method: str | None = field(
        default=None,
        metadata={"doc": "How the prefix came about: prefill, rollback or saved state."},
    )
    prompt_tokens: int = field(default=0, metadata={"doc": "Tokens of the prompt."})
    cells: int = field(default=0, metadata={"doc": "Cells (t, j) compared."})
    cells_differing: int = field(
        default=0, metadata={"doc": "Cells whose rows of logits differ in a bit."}
    )
    elements_differing: int = field(default=0, metadata={"doc": "Logits that differ in bits."})
    flips: int = field(default=0, metadata={"doc": "Cells whose argmax differs."})
    flip_positions: int = field(default=0, metadata={"doc": "Different positions among them."})
    first_flip: int | None = field(default=None, metadata={"doc": "The first such position."})
    flip_list: list[Flip] = field(
        default_factory=list, metadata={"doc": "The flips, in order of position and window."}
    )
    pairs: list[PairStats] = field(
        default_factory=list, metadata={"doc": "The three pairs of paths over all cells."}
    )
    windows_full: int = field(
        default=0, metadata={"doc": "Windows of the whole width; rates are over these."}
    )
    windows_flipped: int = field(default=0, metadata={"doc": "Full windows with a flip."})
    by_offset: list[OffsetCount] = field(
        default_factory=list, metadata={"doc": "Counts over full windows per offset."}
    )
    margins: list[MarginBin] = field(
        default_factory=list, metadata={"doc": "Cells and flips by the single path's margin."}
    )
    near_tie: float | None = field(
        default=None, metadata={"doc": "Margin under which a cell is a near-tie."}
    )
    near_ties: int = field(default=0, metadata={"doc": "Cells that are near-ties."})
    severity: Mapping[str, int] = field(
        default_factory=dict,
        metadata={"doc": "Cells per |l_single - l_block|: 0, up to 1e-06, up to 1e-05, ..."},
    )
    centred_mean_abs: float | None = field(
        default=None,
        metadata={
            "doc": "Mean over cells of |change of the AR token's logit|, each row's mean taken off."
        },
    )
    centred_max: float | None = field(
        default=None,
        metadata={"doc": "Largest change of any logit of any cell, each row's mean taken off."},
    )
    probability_change_max: float | None = field(
        default=None, metadata={"doc": "Largest change of any token's probability in any cell."}
    )
    probability_change_mean: float | None = field(
        default=None, metadata={"doc": "Mean over cells of the largest change of a probability."}
    )
    kl_mean: float | None = field(
        default=None, metadata={"doc": "Mean KL divergence of the block path, in nats."}
    )
    kl_max: float | None = field(default=None, metadata={"doc": "Largest KL divergence."})
    nan: int = field(default=0, metadata={"doc": "Cells with a NaN logit in either path."})
    checks: list[Check] = field(
        default_factory=list, metadata={"doc": "What must agree before anything is claimed."}
    )
    drift: PairStats | None = field(
        default=None,
        metadata={
            "doc": "l_block of prefix prefill minus that of prefix ar, over the cells of t > 0."
        },
    )
    drift_cells_differing: int | None = field(
        default=None, metadata={"doc": "Cells of those whose rows differ in a bit."}
    )
    ar_tokens: list[int] = field(default_factory=list, metadata={"doc": "What the AR run took."})
    ar_text: str = field(default="", metadata={"doc": "Its text."})
    cell_values: Cells | None = field(default=None, metadata={"doc": "Every cell (--cells)."})
    seconds: float | None = field(
        default=None,
        metadata={
            "doc": "AR run and all windows of this prefix; widths that ran together share them."
        },
    )
    signal: str | None = field(
        default=None, metadata={"doc": "Signal that ended the child process: SIGABRT, SIGILL, ..."}
    )
    stderr_tail: list[str] = field(
        default_factory=list, metadata={"doc": "Last lines the child wrote to stderr."}
    )

    @property
    def key(self) -> tuple[str, str, str, bool, int, int, str]:
        """What makes a row the same row."""
        prompt = (self.prompt, self.prompt_hash, self.chat, self.n)
        return (self.config, *prompt, self.width, self.prefix)


@dataclass(frozen=True)
class Rate:
    """Cells of full windows pooled over everything that shares a value; 95 % intervals."""

    axis: str = field(metadata={"doc": "What the value is of: width, fa, type_k, prompt, ..."})
    value: str = field(metadata={"doc": "The value."})
    width: int | None = field(metadata={"doc": "Width of the blocks; null where several pool."})
    cells: int = field(metadata={"doc": "Cells of full windows."})
    cells_differing: int = field(metadata={"doc": "Of those, with a differing bit."})
    differing_rate: float | None = field(metadata={"doc": "Their share."})
    differing_low: float | None = field(metadata={"doc": "Its interval (Clopper-Pearson)."})
    differing_high: float | None = field(metadata={"doc": "Its interval."})
    flips: int = field(metadata={"doc": "Cells with another argmax."})
    flip_rate: float | None = field(metadata={"doc": "Their share."})
    flip_low: float | None = field(metadata={"doc": "Its interval."})
    flip_high: float | None = field(metadata={"doc": "Its interval."})
    windows: int = field(metadata={"doc": "Full windows."})
    windows_flipped: int = field(metadata={"doc": "Of those, with a flip."})
    window_rate: float | None = field(metadata={"doc": "Their share."})
    window_low: float | None = field(metadata={"doc": "Its interval."})
    window_high: float | None = field(metadata={"doc": "Its interval."})


MODEL_DATACLASSES: tuple[type, ...] = (
    ModelSettings,
    BlockComparison,
    Flip,
    PairStats,
    OffsetCount,
    MarginBin,
    Check,
    Cells,
    Rate,
)
"""In the order of docs/record.md."""
