"""Named matrices: those of the upstream reports, and those shaped like models of today.

What a report said stands in `reported`; it is a note, never an expectation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ggmlprobe.errors import UsageError
from ggmlprobe.plan import product
from ggmlprobe.runner import Case

SPECULATIVE_WIDTHS = (1, 2, 3, 4, 5, 8, 9, 16)
KV_TYPES = ("f16", "q8_0")


@dataclass(frozen=True)
class Part:
    """One op with lists of parameters (fields of its dataclass); zipped lists move together.

    Attributes:
        together: names whose lists go in step, such as m and k of a shape.
    """

    op_name: str
    lists: Mapping[str, tuple[Any, ...]]
    together: tuple[str, ...] = ()

    def cases(self, widths: tuple[int, ...]) -> list[Case]:
        """The product of the lists, those in `together` counted as one."""
        steps = zip(*(self.lists[name] for name in self.together), strict=True)
        apart = {n: v for n, v in self.lists.items() if n not in self.together}
        if not self.together:
            return product(self.op_name, apart, widths)
        fixed = [{n: (v,) for n, v in zip(self.together, step, strict=True)} for step in steps]
        return [c for step in fixed for c in product(self.op_name, step | apart, widths)]


@dataclass(frozen=True)
class Preset:
    """A named matrix with its source.

    Attributes:
        reported: what the source saw, on its hardware.
    """

    name: str
    source: str
    reported: str
    widths: tuple[int, ...]
    parts: tuple[Part, ...]

    def cases(self, widths: tuple[int, ...] | None = None) -> list[Case]:
        """Every case, at the preset's widths or at others."""
        return [case for part in self.parts for case in part.cases(widths or self.widths)]


def shapes(type_a: str, *mk: tuple[int, int]) -> Part:
    """MUL_MAT of one type at m x k shapes."""
    lists = {"m": tuple(m for m, _ in mk), "k": tuple(k for _, k in mk), "type_a": (type_a,)}
    return Part("mul_mat", lists, ("m", "k"))


def attention(
    hs: int, heads: int, kv_heads: int, cells: tuple[int, ...] = (4096,), **more: Any
) -> Part:
    """FLASH_ATTN_EXT with f16 and q8_0 KV."""
    fixed = {"hsk": hs, "hsv": hs, "nh": kv_heads, "nr2": heads // kv_heads} | more
    lists = {"cells": cells, "type_K": KV_TYPES, "type_V": KV_TYPES}
    return Part("flash_attn", {n: (v,) for n, v in fixed.items()} | lists, ("type_K", "type_V"))


def experts(type_a: str, count: int, used: int, ff: int, embd: int) -> Part:
    """MUL_MAT_ID of up (one activation for all experts) and down (one each)."""
    lists = {"m": (ff, embd), "k": (embd, ff), "b": (True, False)}
    fixed = {"type_a": (type_a,), "n_mats": (count,), "n_used": (used,)}
    return Part("mul_mat_id", lists | fixed, ("m", "k", "b"))


def router(count: int, embd: int) -> Part:
    """The f32 product that chooses experts."""
    return shapes("f32", (count, embd))


REPORTED = (
    Preset(
        "pr-28108", "ggml-org/llama.cpp pull request 28108",
        "RTX 5080 Laptop (SM120): widths 1, 2 pass, 3, 4 fail, 6/12; with its change 12/12, "
        "widths 3-4 15-17 % slower, width 1 unchanged. The report names no KV type or head size.",
        (1, 2, 3, 4),
        tuple(
            Part(
                "flash_attn",
                {"hsk": (hs,), "hsv": (hs,), "nh": (kv_heads,), "nr2": (heads // kv_heads,),
                 "cells": (2048, 7168, 16384), "type_K": ("f16", "q8_0", "q4_0"),
                 "type_V": ("f16", "q8_0", "q4_0")},
                ("type_K", "type_V"),
            )
            for hs, heads, kv_heads in ((128, 32, 8), (256, 24, 4))
        ),
    ),
    Preset(
        "issue-28111", "ggml-org/llama.cpp issue 28111",
        "RTX 5080 Laptop (SM120): widths 1-4 pass, 5 and 8 fail: 12/18.",
        (1, 2, 3, 4, 5, 8),
        (shapes("iq3_s", (17408, 5120)), shapes("iq4_xs", (10240, 5120), (5120, 17408))),
    ),
)  # fmt: skip

DENSE_27B = (
    (17408, 5120),
    (5120, 17408),
    (10240, 5120),
    (5120, 6144),
    (1024, 5120),
    (248320, 5120),
)

MODELS = (
    Preset(
        "qwen3.8-27b", "shapes of Qwen3.8 27B", "", SPECULATIVE_WIDTHS,
        (shapes("q4_K", *DENSE_27B), attention(256, 24, 4)),
    ),
    Preset(
        "qwen3.6-35b-a3b", "shapes of Qwen3.6 35B A3B", "", SPECULATIVE_WIDTHS,
        (experts("q4_K", 256, 8, 512, 2048), router(256, 2048), attention(256, 16, 2)),
    ),
    Preset(
        "qwen3-30b-a3b", "shapes of Qwen3 30B A3B", "", SPECULATIVE_WIDTHS,
        (experts("q4_K", 128, 8, 768, 2048), router(128, 2048),
         attention(128, 32, 4)),
    ),
    Preset(
        "gpt-oss-20b", "shapes of gpt-oss 20B", "", SPECULATIVE_WIDTHS,
        (experts("mxfp4", 32, 4, 2880, 2880), router(32, 2880),
         attention(64, 64, 8, sinks=True), attention(64, 64, 8, sinks=True, window=128)),
    ),
    Preset(
        "gemma", "attention of Gemma: 256 with a window, 512 global", "", SPECULATIVE_WIDTHS,
        (attention(256, 16, 8, window=1024), attention(512, 16, 2)),
    ),
    Preset(
        "mla", "absorbed attention of DeepSeek V2 and V3: V is a view of K", "",
        SPECULATIVE_WIDTHS,
        tuple(attention(576, gqa, 1, hsv=512, v_is_view_of_k=True) for gqa in (20, 128)),
    ),
    Preset(
        "llama-8b", "shapes of Llama 3 8B", "", SPECULATIVE_WIDTHS,
        (shapes("q4_K", (4096, 14336), (14336, 4096)), attention(128, 32, 8)),
    ),
)  # fmt: skip

PRESETS = {preset.name: preset for preset in (*REPORTED, *MODELS)}


def named(name: str) -> Preset:
    """The preset of that name.

    Raises:
        UsageError: lists the names there are.
    """
    if name not in PRESETS:
        raise UsageError(f"no preset {name}: there are {', '.join(PRESETS)}")
    return PRESETS[name]
