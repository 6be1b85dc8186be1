"""What a run on a GPU consists of: commands, the most valuable first, with shares of the time."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ggmlprobe.dispatch.arms import CUDA_LIKE, DEFAULTS
from ggmlprobe.errors import UsageError
from ggmlprobe.presets import MODELS, REPORTED


@dataclass(frozen=True)
class Step:
    """One command of the run.

    Attributes:
        name: of its files.
        args: what follows `ggmlprobe`, apart from the options that every step gets.
        share: of the whole time, what it may take before the next one begins.
        offload: runs on the device and the CPU together, with the weights on the CPU's side.
    """

    name: str
    args: tuple[str, ...]
    share: float
    offload: bool = False

    @property
    def line(self) -> str:
        """The arguments as a shell takes them."""
        return shlex.join(self.args)


def _step(name: str, share: float, command: str, offload: bool = False) -> Step:
    return Step(name, tuple(command.split()), share, offload)


KERNELS = "--kernels"
# where the paths of MMVQ, MMQ and the float products part
_TYPES = "q4_K,q6_K,q4_0,q8_0,iq4_xs,iq3_s,mxfp4,f16"
_SHAPE = "--m 4096 --k 4096"
_KV = "--type-k f16,bf16,q8_0,q4_0 --hs 64,128,256 --kv 4096"

PROBES = (
    *(_step(p.name, 0.1, f"preset run {p.name} --kernels") for p in reversed(REPORTED)),
    _step("sweep-mul_mat", 0.2, f"sweep mul_mat --type all {_SHAPE} --widths 1-17 --kernels"),
    _step("sweep-flash_attn", 0.1, f"sweep flash_attn {_KV} --widths 1-9,16 --kernels"),
    _step("bisect-mul_mat", 0.05, f"bisect mul_mat --type {_TYPES} {_SHAPE} --to 512 --kernels"),
    _step("threshold-mul_mat", 0.2,
          f"threshold mul_mat --types q4_K,iq3_s {_SHAPE} --widths 1-9,16"),
    _step("sweep-mul_mat_id", 0.05,
          "sweep mul_mat_id --type q4_K,mxfp4 --routing shared,disjoint,random,skewed "
          "--widths 1-9,16 --kernels"),
    _step("attn_nofa", 0.05, "sweep attn_nofa --hs 128,256 --kv 4096 --widths 1-9,16 --kernels"),
    *(_step(p.name, 0.08, f"preset run {p.name} --kernels") for p in reversed(MODELS)),
    _step("threshold-mul_mat_id", 0.06, "threshold mul_mat_id --widths 1-9"),
    _step("threshold-flash_attn", 0.06, "threshold flash_attn --kv 4096 --widths 1-9"),
    _step("time-mul_mat", 0.08,
          f"op mul_mat --type q4_K,q8_0,iq3_s,f16 {_SHAPE} --widths 1-9,16 --time"),
    _step("time-flash_attn", 0.08,
          "op flash_attn --type-k f16,q8_0 --hs 128,256 --kv 4096 --widths 1-9,16 --time"),
)  # fmt: skip

OFFLOAD = _step("offload", 0.03, f"bisect mul_mat --type q4_K {_SHAPE} --to 64", offload=True)
"""From which width on a product goes to the GPU though its weights lie in host memory."""

SETTINGS = tuple(
    _step(f"ab-{name}-{op}", 0.05, f"ab {op} {options} --set-env-b {variable}=1")
    for name, variable in (("graphs", "GGML_CUDA_DISABLE_GRAPHS"),
                           ("fusion", "GGML_CUDA_DISABLE_FUSION"))
    for op, options in (("mul_mat", f"{_SHAPE} --widths 1-9"),
                        ("flash_attn", "--kv 4096 --widths 1-4"))
)  # fmt: skip
"""A: the variable is unset, B: it is set. Only CUDA's backend reads them."""


def steps(backend: str, only: Sequence[str] | None = None, kernels: bool = True) -> list[Step]:
    """The steps for a device, in order; `threshold` where arms are known for its backend.

    Args:
        backend: as ggml names it. only: names of steps; None for all.
        kernels: whether they can be named, which `threshold` rests on.

    Raises:
        UsageError: lists the names there are.
    """
    cuda = backend in CUDA_LIKE
    place = "CUDA" if cuda else backend
    found = [
        step for step in (*PROBES, *(() if backend == "CPU" else (OFFLOAD,)),
                          *(SETTINGS if cuda else ()))
        if step.args[0] != "threshold" or (kernels and (place, step.args[1]) in DEFAULTS)
    ]  # fmt: skip
    if not kernels:
        found = [
            replace(step, args=tuple(arg for arg in step.args if arg != KERNELS)) for step in found
        ]
    names = [step.name for step in found]
    if unknown := [name for name in only or () if name not in names]:
        raise UsageError(f"no step {unknown[0]} on {backend}: there are {', '.join(names)}")
    return [step for step in found if only is None or step.name in only]
