"""The ops as the command line knows them: their options, and the cases those name.

Every group of commands that takes an op (`op`, `sweep`, `bisect`, ...) makes its subcommands of
these with `add_commands`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from ggmlprobe import plan
from ggmlprobe.checks import CHECKS
from ggmlprobe.cli.options import (
    NAMES,
    RANGE,
    Finite,
    Pair,
    ProbeOptions,
    Whole,
    probe_options,
)
from ggmlprobe.errors import UsageError
from ggmlprobe.ops.activations import DISTRIBUTIONS
from ggmlprobe.ops.flash_attn import LAYOUTS
from ggmlprobe.runner import Case
from ggmlprobe.worker.protocol import Event

Option = Callable[[Any], Any]
Lists = Mapping[str, Sequence[Any]]
"""Values by name of a field of the op's dataclass; the first list varies slowest."""

ALL = "all"


@dataclass(frozen=True)
class OpSpec:
    """An op's face on the command line.

    Attributes:
        name: in ops.OPS. title: ggml's name and what the width is.
        example: options for an example. options: decorators, in the order of --help.
        lists: makes the products of lists that the parsed options name.
        checks: whether checks.CHECKS apply.
    """

    name: str
    title: str
    example: str
    options: tuple[Option, ...]
    lists: Callable[[Mapping[str, Any]], list[Lists]]
    checks: bool = False


@dataclass(frozen=True)
class Chosen:
    """An op with what its options say.

    Attributes:
        given: parsed options by their parameter names.
    """

    spec: OpSpec
    given: Mapping[str, Any]

    def having(self, **changes: Any) -> Chosen:
        """The same with other values of some options."""
        return replace(self, given={**self.given, **changes})

    def cases(self, ready: Event, widths: Sequence[int]) -> list[Case]:
        """The cases, at these widths.

        Args:
            ready: the child's description of its library, for the type `all`.
        """
        made = []
        for lists in self.spec.lists(self.given):
            types = {n: expanded(v, ready) for n, v in lists.items() if n == "type_a"}
            made += plan.product(self.spec.name, {**lists, **types}, widths)
        return made


def expanded(names: Sequence[str], ready: Event) -> tuple[str, ...]:
    """Type names with `all` replaced by every type weights can have."""
    every = plan.all_types(ready["types"])
    return tuple(dict.fromkeys(n for name in names for n in (every if name == ALL else [name])))


def as_lists(given: Mapping[str, Any], single: Sequence[str] = ()) -> dict[str, Sequence[Any]]:
    """Each option as a list; those in `single`, and those that are no tuple, have one value."""
    return {
        name: value if isinstance(value, tuple) and name not in single else (value,)
        for name, value in given.items()
    }


def mul_mat_lists(given: Mapping[str, Any]) -> list[Lists]:
    """Products of types and shapes; without --m and --k both shapes of a feed-forward layer."""
    lists = as_lists(given, single=("bs", "nr", "per"))
    m, k = given["m"], given["k"]
    if (m is None) != (k is None):
        raise UsageError("--m and --k go together")
    if m is not None:
        return [lists]
    return [{**lists, "m": (rows,), "k": (cols,)} for rows, cols in ((4096, 14336), (14336, 4096))]


def attention_lists(given: Mapping[str, Any]) -> list[Lists]:
    """Products of lists, where V follows K in head size and type unless it is named."""
    own = dict(given)
    hs, hsk, hsv = own.pop("hs"), own.pop("hsk"), own.pop("hsv")
    heads, kv_heads = own.pop("heads"), own.pop("kv_heads")
    type_k, type_v, cells = own.pop("type_K"), own.pop("type_V"), own.pop("cells")
    if heads % kv_heads:
        raise UsageError(f"--heads {heads} must be a multiple of --kv-heads {kv_heads}")
    fixed = as_lists(own) | {"nh": (kv_heads,), "nr2": (heads // kv_heads,)}
    return [
        {"hsk": (k,), "hsv": (v,), "type_K": (tk,), "type_V": (tv,), "cells": cells} | fixed
        for k in hsk or hs for v in hsv or [k] for tk in type_k for tv in type_v or [tk]
    ]  # fmt: skip


ACTIVATIONS = click.option(
    "--activations", type=click.Choice(DISTRIBUTIONS), default="normal", show_default=True,
    help="Normal, or with a few channels 32 times as large.",
)  # fmt: skip

TYPE_B = click.option(
    "--type-b", type=NAMES, default="f32", show_default=True, help="Types of the activations."
)

MUL_MAT = OpSpec(
    "mul_mat",
    "MUL_MAT: weights [k, m] times n columns; the width is n.",
    "--type q4_K --m 4096 --k 4096",
    (
        click.option("--type", "--types", "type_a", type=NAMES, default="q4_K", show_default=True,
                     help="Types of the weights, or all."),
        TYPE_B,
        click.option("--m", type=RANGE,
                     help="Rows of the weights [4096 with k 14336, and 14336 with 4096]."),
        click.option("--k", type=RANGE, help="Columns of the weights."),
        click.option("--bs", type=Pair(2), default="1,1", show_default=True,
                     help="Batch in dims 3, 4."),
        click.option("--nr", type=Pair(2), default="1,1", show_default=True,
                     help="Broadcast in dims 3, 4."),
        click.option("--per", type=Pair(4), default="0,1,2,3", show_default=True,
                     help="Permutation of the dimensions."),
        click.option("--k-v", type=Whole(0), default=0, show_default=True,
                     help="k in memory, for a view; 0 for none."),
        click.option("--prec", type=click.Choice(["default", "f32"]), default="default",
                     show_default=True, help="Precision the op asks for."),
        ACTIVATIONS,
    ),
    mul_mat_lists,
)  # fmt: skip

MUL_MAT_ID = OpSpec(
    "mul_mat_id",
    "MUL_MAT_ID: each token times the matrices of its experts; the width is n.",
    "--routing shared",
    (
        click.option("--type", "--types", "type_a", type=NAMES, default="q4_K", show_default=True,
                     help="Types of the experts, or all."),
        TYPE_B,
        click.option("--m", type=RANGE, default="768", show_default=True,
                     help="Rows of an expert."),
        click.option("--k", type=RANGE, default="2048", show_default=True,
                     help="Columns of an expert."),
        click.option("--experts", "n_mats", type=RANGE, default="128", show_default=True,
                     help="Experts."),
        click.option("--used", "n_used", type=RANGE, default="8", show_default=True,
                     help="Experts a token goes to."),
        click.option("--routing", type=NAMES, default="random", show_default=True,
                     help="How tokens choose: shared; disjoint, as far as the experts last; "
                     "random; skewed."),
        click.option("--broadcast/--no-broadcast", "b", default=True, show_default=True,
                     help="One activation for all experts of a token (up, gate), or each its own "
                     "(down)."),
        ACTIVATIONS,
    ),
    lambda given: [as_lists(given)],
)  # fmt: skip

ATTENTION = (
    click.option("--hs", type=RANGE, default="128", show_default=True, help="Head size."),
    click.option("--hsk", type=RANGE, help="Head size of K [as --hs]."),
    click.option("--hsv", type=RANGE, help="Head size of V [as --hsk]."),
    click.option("--heads", type=Whole(1), default=32, show_default=True,
                 help="Query heads."),
    click.option("--kv-heads", type=Whole(1), default=8, show_default=True,
                 help="KV heads."),
    click.option("--kv", "cells", type=RANGE, default="4096", show_default=True,
                 help="Used cells of the KV cache; n_kv is padded to 256."),
    click.option("--kv-exact", "exact", is_flag=True, help="n_kv is --kv, without padding."),
    click.option("--type-k", "type_K", type=NAMES, default="f16", show_default=True,
                 help="Types of K."),
    click.option("--type-v", "type_V", type=NAMES, help="Types of V [each with its K]."),
    click.option("--mask/--no-mask", default=True, show_default=True, help="Causal mask."),
    click.option("--window", type=Whole(0), default=0, show_default=True,
                 help="Cells a token sees; 0 for all."),
    click.option("--max-bias", type=Finite(1024), default=0.0, show_default=True,
                 help="ALiBi."),
    click.option("--softcap", "logit_softcap", type=Finite(1e6), default=0.0,
                 show_default=True, help="Logit soft-capping."),
    click.option("--sinks", is_flag=True, help="Attention sinks."),
    click.option("--streams", type=Whole(1), default=1, show_default=True,
                 help="Sequences evaluated together."),
    click.option("--prec", type=click.Choice(["f32", "default"]), default="f32",
                 show_default=True, help="Precision the op asks for."),
)  # fmt: skip

FLASH_ATTN = OpSpec(
    "flash_attn",
    "FLASH_ATTN_EXT over a KV cache as llama.cpp lays it out; the width is nb.",
    "--kv 512 --type-k f16,q8_0",
    (
        click.option("--v-is-view-of-k", is_flag=True, help="V is the first channels of K (MLA)."),
        click.option(
            "--layout",
            type=click.Choice(LAYOUTS),
            default="cache",
            show_default=True,
            help="Heads inside cells as llama.cpp's cache has them, or outermost.",
        ),
        *ATTENTION,
    ),
    attention_lists,
    checks=True,
)

ATTN_NOFA = OpSpec(
    "attn_nofa",
    "Attention without flash attention: KQ, soft_max and KQV; the width is their n.",
    "--kv 512",
    ATTENTION,
    attention_lists,
    checks=True,
)

SPECS = (MUL_MAT, MUL_MAT_ID, FLASH_ATTN, ATTN_NOFA)

CHECK = click.option(
    "--check", type=click.Choice(list(CHECKS)),
    help="Instead of the width: " + "; ".join(CHECKS.values()) + ".",
)  # fmt: skip


def add_commands(
    group: click.Group,
    handler: Callable[..., None],
    example: str,
    own: Sequence[Option] = (),
    checks: bool = False,
    specs: Sequence[OpSpec] = SPECS,
    defaults: Mapping[str, str] | None = None,
) -> None:
    """Give a group one subcommand for each op, with the options of the op and of every probe.

    Args:
        handler: called as handler(Chosen, ProbeOptions, **own options), with `check` where asked.
        example: options that the example in --help ends with.
        own: decorators of options that the group adds.
        checks: whether to offer --check for ops that have checks.
        defaults: other defaults of options, by parameter name.
    """
    for spec in specs:
        more = (*own, *([CHECK] if checks and spec.checks else []))
        command = _command(group.name or "", spec, handler, example, more)
        command.context_settings["default_map"] = dict(defaults or {})
        group.add_command(command)


def _command(
    group: str, spec: OpSpec, handler: Callable[..., None], example: str, more: Sequence[Option]
) -> click.Command:
    names: list[str] = []

    def body(options: ProbeOptions, **given: Any) -> None:
        mine = {name: given.pop(name) for name in names}
        handler(Chosen(spec, mine), options, **given)

    decorated: Any = probe_options(body)
    for option in reversed(more):
        decorated = option(decorated)
    before = len(decorated.__click_params__)
    for option in reversed(spec.options):
        decorated = option(decorated)
    names += [param.name for param in decorated.__click_params__[before:]]
    example = " ".join(["ggmlprobe", group, spec.name, spec.example, example])
    said = f"{spec.title}\n\n\b\nExample:\n  {example}"
    short = spec.title.partition(";")[0]
    return click.command(spec.name, help=said, short_help=short)(decorated)
