"""Tensors and nodes made after ones that were seen, whatever their op and strides."""

from __future__ import annotations

from collections.abc import Sequence

from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.llama.node import layout_of, prove_layout
from ggmlprobe.ggml.tensor import Context, Tensor


def strided(
    library: Library, context: Context, type_name: str, ne: Sequence[int], nb: Sequence[int],
    name: str = "",
) -> Tensor:  # fmt: skip
    """Add a tensor without memory that has the strides of another, a view for example.

    Args:
        ne: four sizes, fastest first. nb: four strides in bytes.
    """
    prove_layout(library)
    made = context.new_tensor(type_name, ne, name)
    seen = layout_of(made.ptr)
    for axis, stride in enumerate(nb):
        seen.nb[axis] = stride
    return made


def node(
    library: Library, context: Context, op_id: int, params: bytes, type_name: str,
    ne: Sequence[int], sources: Sequence[Tensor],
) -> Tensor:  # fmt: skip
    """Add a node of any op, without the function that would make it.

    Args:
        op_id: the op's number in this library.
        params: its parameters, 64 bytes.
        ne: sizes of the result, which lies without gaps.
    """
    prove_layout(library)
    made = context.new_tensor(type_name, ne)
    seen = layout_of(made.ptr)
    seen.op = op_id
    for place in range(0, len(params), 4):
        word = int.from_bytes(params[place : place + 4], "little", signed=True)
        seen.op_params[place // 4] = word
    for i, source in enumerate(sources):
        seen.src[i] = source.ptr
    return made
