"""The command that adds an f16 row to a run which has quantized ones only."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ggmlprobe.endpoint import SCHEME
from ggmlprobe.record import Record, Result
from ggmlprobe.report.text import ascii_line, ranges

DROPPED = ("--export-md", "--export-csv", "--export-json", "--export-jsonl",
           "--export-junit", "--resume",
           "--baseline", "-o", "--output")  # fmt: skip
DROPPED_FLAGS = ("--force", "--retry")
TYPES = ("--type", "--types", "--type-k", "--type-v")
PLAIN = "f16"


def command_beside(record: Record, row: Result) -> str:
    """The run's own command with f16 among its types, or one made from a row's parameters.

    Returns:
        the command line; empty where the op has no such row.
    """
    return _edited(record.command) or _made(record, row)


def _edited(command: str) -> str:
    try:
        words = _kept(shlex.split(command))
    except ValueError:
        return ""
    if words[1:2] not in (["op"], ["sweep"]) or len(words) < 3:
        return ""
    if not any(word.partition("=")[0] in TYPES for word in words):
        words += ["--type", "q4_K"]
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in TYPES and equals:
            words[i] = f"{name}={_with_plain(value)}"
        elif i and words[i - 1] in TYPES:
            words[i] = _with_plain(word)
    return ascii_line(shlex.join(words))


def _with_plain(types: str) -> str:
    return types if PLAIN in types.split(",") else f"{types},{PLAIN}"


def _kept(words: Sequence[str]) -> list[str]:
    """The words without options that write files or choose a format."""
    kept: list[str] = []
    skip = False
    for word in words:
        if not skip and word not in DROPPED and not _dropped(word):
            kept.append(word)
        skip = not skip and word in DROPPED
    return kept


def _dropped(word: str) -> bool:
    return word in DROPPED_FLAGS or bool(re.match(r"--(export-\w+|resume|output|baseline)=", word))


def _made(record: Record, row: Result) -> str:
    """From the parameters: a preset's row, say."""
    make = OPTIONS.get(row.op)
    if make is None:
        return ""
    widths = ranges(each.width for each in record.results if each.case == row.case)
    try:
        options = make(row.params)
    except (KeyError, TypeError):
        return ""
    config = next(config for config in record.configs if config.id == row.config)
    settings = ["--threads", config.threads, "--threads-batch", config.threads_batch]
    device = config.device
    settings += ["--device", f"{SCHEME}{device.endpoint}" if device.endpoint else device.name]
    if config.library.origin == "--lib":
        settings += ["--lib", config.library.path]
    words = ["ggmlprobe", "op", *options, "--widths", widths, *settings]
    return ascii_line(shlex.join(map(str, words)))


def _mul_mat(params: Mapping[str, Any]) -> list[Any]:
    return ["mul_mat", "--type", PLAIN, "--m", params["m"], "--k", params["k"]]


def _mul_mat_id(params: Mapping[str, Any]) -> list[Any]:
    shape = ["mul_mat_id", "--type", PLAIN, "--m", params["m"], "--k", params["k"]]
    return [*shape, "--experts", params["n_mats"], "--used", params["n_used"]]


def _flash_attn(params: Mapping[str, Any]) -> list[Any]:
    heads = params["nh"] * params["nr23"][0]
    sizes = ["--hsk", params["hsk"], "--hsv", params["hsv"], "--heads", heads]
    return ["flash_attn", *sizes, "--kv-heads", params["nh"], "--kv", params["cells"],
            "--type-k", PLAIN]  # fmt: skip


OPTIONS: Mapping[str, Callable[[Mapping[str, Any]], list[Any]]] = {
    "MUL_MAT": _mul_mat,
    "MUL_MAT_ID": _mul_mat_id,
    "FLASH_ATTN_EXT": _flash_attn,
}
