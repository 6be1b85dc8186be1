"""Comparisons of block and single decode in the flat formats: a line for each."""

from __future__ import annotations

import csv
import io
from typing import Any

from ggmlprobe.model.record import BlockComparison
from ggmlprobe.record import Config, Record, dumps, to_dict
from ggmlprobe.report.csv import cell
from ggmlprobe.report.rows import config_fields, configs_by_id, env_label

MODEL_FIELDS = ("file", "description", "ngl", "fa", "type_k", "type_v", "extra_bufts", "n_ubatch")
OWN_FIELDS = (
    "prompt", "kind", "chat", "n", "prompt_tokens", "width", "prefix", "method", "verdict",
    "cells", "cells_differing", "elements_differing", "flips", "flip_positions", "first_flip",
    "windows_full", "windows_flipped", "near_tie", "near_ties", "centred_mean_abs",
    "centred_max", "probability_change_max", "probability_change_mean", "kl_mean", "kl_max",
    "nan", "drift_cells_differing", "seconds", "signal", "detail",
)  # fmt: skip
PAIR_FIELDS = ("mean", "var", "mean_abs", "var_abs")
PAIR_NAMES = ("ar_single", "ar_block", "single_block")


def around(config: Config) -> dict[str, Any]:
    """What a line says of its config."""
    model = to_dict(config.model) or {}
    return config_fields(config) | {name: model.get(name) for name in MODEL_FIELDS}


def render_jsonl(record: Record) -> str:
    """One self-contained JSON object per comparison."""
    configs = configs_by_id(record)
    return "".join(
        dumps(around(configs[row.config]) | to_dict(row)) + "\n" for row in record.comparisons
    )


def render_csv(record: Record) -> str:
    """A header line, then one line per comparison."""
    configs = configs_by_id(record)
    out = io.StringIO()
    pairs = [f"{pair}_{name}" for pair in PAIR_NAMES for name in PAIR_FIELDS]
    head = list(around(record.configs[0])) if record.configs else []
    writer = csv.DictWriter(out, [*head, *OWN_FIELDS, *pairs], lineterminator="\n")
    writer.writeheader()
    for row in record.comparisons:
        writer.writerow(_line(row, configs[row.config]))
    return out.getvalue()


def _line(row: BlockComparison, config: Config) -> dict[str, Any]:
    plain = to_dict(row)
    cells = around(config) | {"env": env_label(config.env) if config.env else None}
    cells |= {name: plain[name] for name in OWN_FIELDS}
    for pair, stats in zip(PAIR_NAMES, plain["pairs"], strict=False):
        cells |= {f"{pair}_{name}": stats[name] for name in PAIR_FIELDS}
    return {name: cell(value) for name, value in cells.items()}
