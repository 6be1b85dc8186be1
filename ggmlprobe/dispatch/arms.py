"""Arms: paths of a product that are forced on a stock library, to be compared width by width.

An arm is an environment, a buffer type or a library whose functions take the place of the
dispatch. It must be proven: a kernel of the arm's family ran, and none of another (proof.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ggmlprobe.dispatch import cpu_arms, cuda_arms
from ggmlprobe.dispatch.bindings import read_bindings, require_exported, require_replaceable
from ggmlprobe.errors import UsageError

Limit = Callable[[Any, int], str | None]
"""(op, width) to why the arm cannot serve it, or None."""

VARIABLE = "GGMLPROBE_ARM"
OWN = "own"
"""Name of the library's own choice, which runs beside every arm."""

CUDA_LIKE = ("CUDA", "ROCm", "MUSA")
"""Backends that are built from ggml-cuda's source."""
_MMVQ = "_Z25ggml_cuda_should_use_mmvq9ggml_typeil"
_MMQ = "_Z24ggml_cuda_should_use_mmq9ggml_typeill"
_MMVF = "_Z25ggml_cuda_should_use_mmvf9ggml_typeiPKlPKml"
_MMF = "_Z24ggml_cuda_should_use_mmf9ggml_typeiiPKlPKmib"
_MMID = "_Z23get_mmvq_mmid_max_batch9ggml_typei"
_VEC_Q = (
    "_Z23ggml_cuda_mul_mat_vec_qR25ggml_backend_cuda_contextPK11ggml_tensorS3_S3_PS1_"
    "PK29ggml_cuda_mm_fusion_args_host"
)
_ATTENTION = "_Z24ggml_cuda_flash_attn_extR25ggml_backend_cuda_contextP11ggml_tensor"
_TILE = "_Z29ggml_cuda_flash_attn_ext_tileR25ggml_backend_cuda_contextP11ggml_tensor"


@dataclass(frozen=True)
class Arm:
    """A forced path.

    Attributes:
        name: as it is given, such as `split:4`.
        about: what it forces, for the list of arms.
        ops: ops.OPS that have it.
        families: of kernels, see proof.FAMILIES; one of these must run and none of another.
            Empty where the proof compares with the library's own choice.
        limit: why a width of a case cannot be served.
        interposers: libraries of native/ that take the place of functions.
        symbols: the functions they replace, which the library must export and look up.
        uses: functions they call besides, which it must export.
        env: for the child; None takes a variable away. buft: buffer type of the weights.
        columns: most columns a call may have, for a split.
        instance: the function that serves a case, where not every library has it.
    """

    name: str
    about: str
    ops: tuple[str, ...]
    families: frozenset[str]
    limit: Limit
    interposers: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    env: Mapping[str, str | None] = field(default_factory=dict)
    buft: str | None = None
    columns: int | None = None
    instance: Callable[[Any], str] | None = None

    def refusal(self, op: Any, width: int, files: Sequence[str]) -> str | None:
        """Why the arm cannot serve this width of a case, or None.

        Args:
            files: the library's files that are loaded.
        """
        why = self.limit(op, width)
        if why is not None or self.instance is None:
            return why
        symbol = self.instance(op)
        there = any(symbol in read_bindings(path).exported for path in files)
        return None if there else f"this library has no {symbol}"

    def require(self, files: Sequence[str]) -> None:
        """Refuse a library whose functions nothing can take the place of.

        Args:
            files: the library's files that are loaded.

        Raises:
            SymbolMissing: one line naming the symbol.
        """
        for symbol in self.symbols:
            require_replaceable(symbol, files)
        for symbol in self.uses:
            require_exported(symbol, files)

    def child_env(self) -> dict[str, str | None]:
        """The environment of the arm's child."""
        return {**self.env, **({VARIABLE: self.name} if self.interposers else {})}


def _cuda(
    name: str,
    about: str,
    limit: Limit,
    symbols: Sequence[str],
    ops: Sequence[str] = ("mul_mat",),
    family: str | None = None,
    **more: Any,
) -> Arm:
    """An arm on libggml-cuda; a captured graph would replay what an earlier call chose."""
    env = {"GGML_CUDA_DISABLE_GRAPHS": "1"}
    families = frozenset({family or name})
    return Arm(
        name, about, tuple(ops), families, limit, ("interpose_cuda",), tuple(symbols), env=env,
        **more,
    )  # fmt: skip


PRODUCTS = ("mul_mat", "mul_mat_id")
NO_TILED = {"GGML_CPU_TILED_MM": "0"}

CUDA_ARMS = (
    _cuda("mmvq", "MMVQ for quantized types, up to 8 columns", cuda_arms.mmvq, [_MMVQ]),
    _cuda("mmq", "MMQ for the types its switch lists", cuda_arms.mmq, [_MMVQ, _MMQ]),
    _cuda("mmvf", "MMVF for f32, f16 and bf16, up to 8 columns", cuda_arms.mmvf, [_MMVF]),
    _cuda("mmf", "MMF for f32, f16 and bf16, up to 16 columns", cuda_arms.mmf, [_MMVF, _MMF]),
    _cuda("cublas", "cuBLAS, weights converted first", cuda_arms.cublas,
          [_MMVQ, _MMQ, _MMVF, _MMF]),
    _cuda("mmid", "MUL_MAT_ID by MMQ at every width", cuda_arms.mmq, [_MMID, _MMQ],
          ("mul_mat_id",), "mmq"),
    _cuda("tile", "the attention tile kernel", cuda_arms.tile, [_ATTENTION],
          ("flash_attn",), uses=(_TILE,)),
    _cuda("vec", "the attention vec kernel", cuda_arms.vec, [_ATTENTION], ("flash_attn",),
          instance=cuda_arms.vec_instance),
)  # fmt: skip

CPU_ARMS = (
    Arm("vec_dot", "dot products: llamafile_sgemm and the tiled product off", PRODUCTS,
        frozenset({"vec_dot"}), cpu_arms.anything, ("interpose_sgemm",), ("llamafile_sgemm",),
        env=NO_TILED),
    Arm("sgemm", "llamafile_sgemm, the tiled product off", ("mul_mat",), frozenset({"sgemm"}),
        cpu_arms.sgemm, env=NO_TILED),
    Arm("tiled", "the tiled product at every width", PRODUCTS, frozenset({"tiled"}),
        cpu_arms.tiled, env={"GGML_CPU_TILED_MM": "1", "GGML_CPU_TILED_MM_FORCE": "1"}),
    Arm("no-tiled", "the tiled product off", PRODUCTS, frozenset({"vec_dot", "sgemm"}),
        cpu_arms.anything, env=NO_TILED),
    Arm("generic", "portable dot products instead of this processor's", PRODUCTS,
        frozenset({"generic"}), cpu_arms.generic, ("interpose_sgemm", "interpose_vec_dot"),
        ("llamafile_sgemm",), env=NO_TILED, instance=cpu_arms.generic_instance),
    Arm("repack", "weights in the buffer type CPU_REPACK", PRODUCTS, frozenset({"repack"}),
        cpu_arms.repack, buft="CPU_REPACK"),
)  # fmt: skip

_NUMBERED = re.compile(r"(split|mmid):(\d+)|mma:(\d+),(\d+)")
_SPLIT = "at most N columns a call: the price of their class"
_SYNTAX = {
    "CPU": {"split:N": _SPLIT},
    "CUDA": {
        "split:N": _SPLIT,
        "mmid:N": "MUL_MAT_ID by MMQ above N columns",
        "mma:Q,H": "the attention MMA case of Q queries by H heads a tile",
    },
}
DEFAULTS = {
    ("CPU", "mul_mat"): ("vec_dot", "tiled", "sgemm", "split:4"),
    ("CPU", "mul_mat_id"): ("vec_dot", "tiled"),
    ("CUDA", "mul_mat"): ("mmvq", "mmq", "mmvf", "mmf", "cublas", "split:4"),
    ("CUDA", "mul_mat_id"): ("mmid", "split:1"),
    ("CUDA", "flash_attn"): ("tile", "vec"),
}
"""By backend and op: the arms that run where none is named."""


def _backend(name: str) -> str:
    return "CUDA" if name in CUDA_LIKE else name


def _split(backend: str, name: str, columns: int) -> Arm:
    about = f"at most {columns} columns a call: the price of their class"
    if backend == "CUDA":
        return _cuda(
            name, about, cuda_arms.split, [_MMVQ, _VEC_Q], PRODUCTS, "mmvq", columns=columns
        )
    return Arm(
        name, about, ("mul_mat",), frozenset(), cpu_arms.anything, ("interpose_mul_mat",),
        ("ggml_compute_forward_mul_mat",), columns=columns,
    )  # fmt: skip


def _numbered(backend: str, name: str) -> Arm | None:
    """An arm whose name has numbers."""
    match = _NUMBERED.fullmatch(name)
    if match is None or (backend != "CUDA" and match[1] != "split"):
        return None
    if match[3]:
        ncols1, ncols2 = int(match[3]), int(match[4])
        limit = partial(cuda_arms.mma, ncols1=ncols1, ncols2=ncols2)
        about = f"the attention MMA case of {ncols1} queries by {ncols2} heads a tile"
        instance = partial(cuda_arms.mma_instance, ncols1=ncols1, ncols2=ncols2)
        ops = ("flash_attn",)
        return _cuda(name, about, limit, [_ATTENTION], ops, "mma", instance=instance)
    number = int(match[2])
    if match[1] == "split":
        return _split(backend, name, number) if number else None
    about = f"MUL_MAT_ID by MMQ above {number} columns"
    limit = partial(cuda_arms.mmid, above=number)
    return _cuda(name, about, limit, [_MMID, _MMQ], ("mul_mat_id",), "mmq")


def known(backend: str) -> tuple[Arm, ...]:
    """The arms of a backend that have no number in their name.

    Args:
        backend: as ggml names it.
    """
    return {"CPU": CPU_ARMS, "CUDA": CUDA_ARMS}.get(_backend(backend), ())


def listed() -> list[str]:
    """Every arm with what it forces, a line each."""
    lines = []
    for backend in ("CPU", "CUDA"):
        texts = {arm.name: arm.about for arm in known(backend)} | _SYNTAX[backend]
        lines += [f"{backend:5} {name:9} {about}" for name, about in texts.items()]
    return lines


def chosen(backend: str, op_name: str, names: Sequence[str] | None) -> list[Arm]:
    """The arms of these names, or those that are the default for an op.

    Args:
        backend: as ggml names it.

    Raises:
        UsageError: no such arm on this backend, or none at all.
    """
    place = _backend(backend)
    names = names or DEFAULTS.get((place, op_name), ())
    if not names:
        raise UsageError(
            f"no arms for {op_name} on {backend}: there are some for products on the CPU and for "
            "products and attention on CUDA"
        )
    plain = {arm.name: arm for arm in known(backend)}
    found = []
    for name in dict.fromkeys(names):
        arm = plain.get(name) or _numbered(place, name)
        if arm is None or op_name not in arm.ops:
            there = [each.name for each in plain.values() if op_name in each.ops]
            there += _SYNTAX.get(place, {})
            raise UsageError(
                f"no arm {name} for {op_name} on {backend}: there are {', '.join(there)}"
            )
        found.append(arm)
    return found
