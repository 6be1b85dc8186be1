"""`ggmlprobe op OP`: one op, lists of parameters, every width against width 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from ggmlprobe import plan
from ggmlprobe.checks import CHECKS
from ggmlprobe.cli.options import (
    DEFAULT_WIDTHS,
    NAMES,
    RANGE,
    F,
    ProbeOptions,
    probe_options,
)
from ggmlprobe.cli.run import run_and_print
from ggmlprobe.errors import UsageError
from ggmlprobe.ops.activations import DISTRIBUTIONS
from ggmlprobe.ops.mul_mat_id import ROUTINGS
from ggmlprobe.ranges import parse_positive
from ggmlprobe.runner import Case
from ggmlprobe.worker.protocol import Event

WIDTHS = parse_positive(DEFAULT_WIDTHS)


class Pair(click.ParamType):
    """Integers of a fixed number, separated by commas."""

    name = "ints"

    def __init__(self, count: int) -> None:
        self.count = count

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Split; a tuple passes."""
        if isinstance(value, tuple):
            return value
        parts = value.split(",")
        if len(parts) != self.count or not all(part.strip().isdigit() for part in parts):
            self.fail(f"'{value}' is not {self.count} integers, such as 1,1", param, ctx)
        return tuple(int(part) for part in parts)


def expanded(names: Sequence[str], ready: Event) -> tuple[str, ...]:
    """Type names with `all` replaced by every type weights can have."""
    every = plan.all_types(ready["types"])
    return tuple(dict.fromkeys(n for name in names for n in (every if name == "all" else [name])))


def run(
    options: ProbeOptions, op_name: str, lists_of: Callable[[Event], Mapping[str, Any]],
    check: str | None = None,
) -> None:  # fmt: skip
    """Run the product of the lists."""

    def cases_of(ready: Event) -> list[Case]:
        return plan.product(op_name, lists_of(ready), options.widths or WIDTHS)

    run_and_print(options, cases_of, check)


@click.group(no_args_is_help=False)
def op() -> None:
    """Probe one op: every width against serial width-1 runs.

    \b
    Example:
      ggmlprobe op mul_mat --type q4_K,iq3_s --m 4096 --k 4096 --widths 1-9
    """


def activation_option(function: F) -> F:
    """Distribution of the activations."""
    return click.option(
        "--activations", type=click.Choice(DISTRIBUTIONS), default="normal", show_default=True,
        help="Normal, or with a few channels 32 times as large.",
    )(function)  # fmt: skip


@op.command("mul_mat")
@click.option(
    "--type",
    "type_a",
    type=NAMES,
    default="q4_K",
    show_default=True,
    help="Types of the weights, or all.",
)
@click.option(
    "--type-b", type=NAMES, default="f32", show_default=True, help="Types of the activations."
)
@click.option(
    "--m", type=RANGE, help="Rows of the weights [4096 with k 14336, and 14336 with 4096]."
)
@click.option("--k", type=RANGE, help="Columns of the weights.")
@click.option("--bs", type=Pair(2), default="1,1", show_default=True, help="Batch in dims 3, 4.")
@click.option(
    "--nr", type=Pair(2), default="1,1", show_default=True, help="Broadcast in dims 3, 4."
)
@click.option(
    "--per",
    type=Pair(4),
    default="0,1,2,3",
    show_default=True,
    help="Permutation of the dimensions.",
)
@click.option(
    "--k-v",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="k in memory, for a view; 0 for none.",
)
@click.option(
    "--prec",
    type=click.Choice(["default", "f32"]),
    default="default",
    show_default=True,
    help="Precision the op asks for.",
)
@activation_option
@probe_options
def mul_mat(
    options: ProbeOptions, type_a: Sequence[str], type_b: Sequence[str],
    m: Sequence[int] | None, k: Sequence[int] | None, **single: Any,
) -> None:  # fmt: skip
    """MUL_MAT: weights [k, m] times n columns; the width is n.

    \b
    Example:
      ggmlprobe op mul_mat --type all --m 512 --k 1024 --widths 1-9,16
    """
    if (m is None) != (k is None):
        raise UsageError("--m and --k go together")
    fixed = {name: (value,) for name, value in single.items()}

    def cases_of(ready: Event) -> list[Case]:
        types: dict[str, tuple[Any, ...]] = {"type_b": tuple(type_b)}
        types["type_a"] = expanded(type_a, ready)
        shapes = [(tuple(m), tuple(k))] if m and k else [((4096,), (14336,)), ((14336,), (4096,))]
        return [
            case for ms, ks in shapes
            for case in plan.product(
                "mul_mat", types | {"m": ms, "k": ks} | fixed, options.widths or WIDTHS)
        ]  # fmt: skip

    run_and_print(options, cases_of)


@op.command("mul_mat_id")
@click.option(
    "--type",
    "type_a",
    type=NAMES,
    default="q4_K",
    show_default=True,
    help="Types of the experts, or all.",
)
@click.option(
    "--type-b", type=NAMES, default="f32", show_default=True, help="Types of the activations."
)
@click.option("--m", type=RANGE, default="768", show_default=True, help="Rows of an expert.")
@click.option("--k", type=RANGE, default="2048", show_default=True, help="Columns of an expert.")
@click.option("--experts", "n_mats", type=RANGE, default="128", show_default=True, help="Experts.")
@click.option(
    "--used", "n_used", type=RANGE, default="8", show_default=True, help="Experts a token goes to."
)
@click.option(
    "--routing",
    type=NAMES,
    default="random",
    show_default=True,
    help=f"How tokens choose: {', '.join(ROUTINGS)}.",
)
@click.option(
    "--broadcast/--no-broadcast",
    "b",
    default=True,
    show_default=True,
    help="One activation for all experts of a token (up, gate), or each its own (down).",
)
@activation_option
@probe_options
def mul_mat_id(options: ProbeOptions, type_a: Sequence[str], **given: Any) -> None:
    """MUL_MAT_ID: each token times the matrices of its experts; the width is n.

    \b
    Example:
      ggmlprobe op mul_mat_id --type q4_K,mxfp4 --routing shared,disjoint
    """
    lists = {name: value if isinstance(value, tuple) else (value,) for name, value in given.items()}
    run(options, "mul_mat_id", lambda ready: {"type_a": expanded(type_a, ready)} | lists)


def attention_options(function: F) -> F:
    """Options of attention with and without flash attention."""
    options = [
        click.option("--hs", type=RANGE, default="128", show_default=True, help="Head size."),
        click.option("--hsk", type=RANGE, help="Head size of K [as --hs]."),
        click.option("--hsv", type=RANGE, help="Head size of V [as --hsk]."),
        click.option("--heads", type=click.IntRange(min=1), default=32, show_default=True,
                     help="Query heads."),
        click.option("--kv-heads", type=click.IntRange(min=1), default=8, show_default=True,
                     help="KV heads."),
        click.option("--kv", "cells", type=RANGE, default="4096", show_default=True,
                     help="Used cells of the KV cache; n_kv is padded to 256."),
        click.option("--kv-exact", "exact", is_flag=True, help="n_kv is --kv, without padding."),
        click.option("--type-k", "type_K", type=NAMES, default="f16", show_default=True,
                     help="Types of K."),
        click.option("--type-v", "type_V", type=NAMES, help="Types of V [each with its K]."),
        click.option("--mask/--no-mask", default=True, show_default=True, help="Causal mask."),
        click.option("--window", type=click.IntRange(min=0), default=0, show_default=True,
                     help="Cells a token sees; 0 for all."),
        click.option("--max-bias", type=click.FloatRange(min=0), default=0.0, show_default=True,
                     help="ALiBi."),
        click.option("--softcap", "logit_softcap", type=click.FloatRange(min=0), default=0.0,
                     show_default=True, help="Logit soft-capping."),
        click.option("--sinks", is_flag=True, help="Attention sinks."),
        click.option("--streams", type=click.IntRange(min=1), default=1, show_default=True,
                     help="Sequences evaluated together."),
        click.option("--prec", type=click.Choice(["f32", "default"]), default="f32",
                     show_default=True, help="Precision the op asks for."),
        click.option("--check", type=click.Choice(list(CHECKS)),
                     help="Instead of the width: " + "; ".join(CHECKS.values()) + "."),
        probe_options,
    ]  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def attention_cases(
    op_name: str, options: ProbeOptions, given: dict[str, Any]
) -> Callable[[Event], list[Case]]:
    """Products of lists, where V follows K in head size and type unless it is named."""
    hs, hsk, hsv = given.pop("hs"), given.pop("hsk"), given.pop("hsv")
    heads, kv_heads = given.pop("heads"), given.pop("kv_heads")
    type_k, type_v, cells = given.pop("type_K"), given.pop("type_V"), given.pop("cells")
    if heads % kv_heads:
        raise UsageError(f"--heads {heads} must be a multiple of --kv-heads {kv_heads}")
    sizes = [(k, v) for k in hsk or hs for v in hsv or [k]]
    types = [(k, v) for k in type_k for v in type_v or [k]]
    fixed = {name: (value,) for name, value in given.items()}
    fixed |= {"nh": (kv_heads,), "nr2": (heads // kv_heads,)}
    lists = [
        {"hsk": (k,), "hsv": (v,), "type_K": (tk,), "type_V": (tv,), "cells": cells} | fixed
        for k, v in sizes for tk, tv in types
    ]  # fmt: skip
    cases = [
        case for each in lists for case in plan.product(op_name, each, options.widths or WIDTHS)
    ]
    return lambda ready: cases


@op.command("flash_attn")
@click.option("--v-is-view-of-k", is_flag=True, help="V is the first channels of K (MLA).")
@attention_options
def flash_attn(options: ProbeOptions, check: str | None, **given: Any) -> None:
    """FLASH_ATTN_EXT over a KV cache as llama.cpp lays it out; the width is nb.

    \b
    Example:
      ggmlprobe op flash_attn --widths 1-4 --kv 512,4096,16384 --type-k f16,q8_0
    """
    run_and_print(options, attention_cases("flash_attn", options, given), check)


@op.command("attn_nofa")
@attention_options
def attn_nofa(options: ProbeOptions, check: str | None, **given: Any) -> None:
    """Attention without flash attention: KQ, soft_max and KQV; the width is their n.

    \b
    Example:
      ggmlprobe op attn_nofa --widths 1-4 --kv 512
    """
    run_and_print(options, attention_cases("attn_nofa", options, given), check)
