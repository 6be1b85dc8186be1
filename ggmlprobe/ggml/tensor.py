"""Tensors and the ops over them."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ggmlprobe.errors import OutOfMemory, UsageError
from ggmlprobe.ggml import precision
from ggmlprobe.ggml.graph import Buffer, Graph, new_context

if TYPE_CHECKING:
    from ggmlprobe.ggml.computing import Computing
    from ggmlprobe.ggml.library import Library

__all__ = ["Buffer", "Context", "Graph", "Tensor"]

# enum ggml_backend_buffer_usage of ggml-backend.h.
_USAGE = {"any": 0, "weights": 1, "compute": 2}
# Ops whose result is f32 whatever their sources are; all others keep their first tensor's type.
_GIVE_F32 = frozenset({"mul_mat", "mul_mat_id", "flash_attn_ext", "get_rows"})
# Room for ops that make a helper tensor besides their result.
_SLACK = 8
_MAX_DIMS = 4
# A graph's hash table and the node list need room for sources that are no nodes.
_SMALLEST_GRAPH = 64


class Tensor:
    """A tensor of a context.

    Attributes:
        ptr: ggml_tensor pointer.
        type: name of its type.
        name: its name in ggml, "" if none was given.
    """

    def __init__(self, lib: Library, ptr: Any, type_name: str, name: str = "") -> None:
        """Wrap a ggml_tensor pointer; Context makes these."""
        self._lib = lib
        self.ptr = ptr
        self.type = type_name
        self.name = name
        if name:
            lib.c.ggml_set_name(ptr, name.encode())

    @property
    def nbytes(self) -> int:
        """Bytes from its first to its last value, gaps of a view included."""
        return int(self._lib.c.ggml_nbytes(self.ptr))

    @property
    def nelements(self) -> int:
        """How many values it has."""
        return int(self._lib.c.ggml_nelements(self.ptr))

    def _check(self, offset: int, size: int) -> None:
        # ggml would abort the process.
        if offset < 0 or offset + size > self.nbytes:
            raise ValueError(
                f"{size} bytes at {offset} do not fit tensor {self.name} of {self.nbytes}"
            )
        if self._lib.c.ggml_get_data(self.ptr) == self._lib.ffi.NULL:
            raise ValueError(f"tensor {self.name} has no memory; allocate its context first")

    def set(self, array: NDArray[Any], offset: int = 0) -> None:
        """Copy an array's bytes into the tensor.

        Args:
            array: C-contiguous, any dtype; its bytes are taken as they are.
            offset: bytes into the tensor.

        Raises:
            ValueError: not contiguous, no memory, or too many bytes.
        """
        if not array.flags.c_contiguous:
            raise ValueError("the array is not C-contiguous; use numpy.ascontiguousarray")
        self._check(offset, array.nbytes)
        if array.nbytes:
            source = self._lib.ffi.from_buffer(array.reshape(-1).view(np.uint8))
            self._lib.c.ggml_backend_tensor_set(self.ptr, source, offset, array.nbytes)

    def get(self, dtype: DTypeLike, count: int | None = None, offset: int = 0) -> NDArray[Any]:
        """Copy bytes of the tensor into a new one-dimensional array.

        Args:
            dtype: how to read the bytes.
            count: how many values of dtype; None for all to the end.
            offset: bytes into the tensor.

        Raises:
            ValueError: no memory, or past the end.
        """
        kind = np.dtype(dtype)
        if count is None:
            count = (self.nbytes - offset) // kind.itemsize
        if count < 0:
            raise ValueError(f"count {count} is negative")
        self._check(offset, count * kind.itemsize)
        out = np.empty(count, kind)
        if out.nbytes:
            target = self._lib.ffi.from_buffer(out.view(np.uint8), require_writable=True)
            self._lib.c.ggml_backend_tensor_get(self.ptr, target, offset, out.nbytes)
        return out


class Owned(Protocol):
    """What goes with a context."""

    def free(self) -> None:
        """Give the memory back."""


class Context:
    """Tensors without data of their own, their buffers and graphs; all closed together.

    Attributes:
        ptr: ggml_context.
        made: how many tensors it has.
    """

    def __init__(self, lib: Library, n_tensors: int = 64) -> None:
        """Make room for n_tensors tensors, views included."""
        self._lib = lib
        self._overhead = int(lib.c.ggml_tensor_overhead())
        self._size = self._overhead * n_tensors
        self._n_tensors = n_tensors
        self.ptr = new_context(lib, self._size + _SLACK * self._overhead)
        self.made = 0
        self._pending: list[Tensor] = []
        self._owned: list[Owned] = []

    def __enter__(self) -> Context:
        """Return the context itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the context."""
        self.close()

    def _reserve(self) -> None:
        # ggml would abort the process.
        if int(self._lib.c.ggml_used_mem(self.ptr)) + self._overhead > self._size:
            raise ValueError(f"the context is full; ask for more than n_tensors={self._n_tensors}")

    def _keep(self, ptr: Any, type_name: str, name: str) -> Tensor:
        tensor = Tensor(self._lib, ptr, type_name, name)
        self._pending.append(tensor)
        self.made += 1
        return tensor

    def new_tensor(self, type_name: str, ne: Sequence[int], name: str = "") -> Tensor:
        """Add a tensor without memory.

        Args:
            type_name: such as "q4_K".
            ne: sizes in ggml's order, fastest first, up to four.
            name: shown in ggml's messages.

        Raises:
            UnknownType: the library has no such type.
            UsageError: ne does not fit the type's blocks, or has no or too many sizes.
        """
        self._reserve()
        info = self._lib.types[type_name]
        if not 1 <= len(ne) <= _MAX_DIMS or any(n < 0 for n in ne):
            raise UsageError(f"a tensor has 1 to {_MAX_DIMS} sizes of at least 0, not {tuple(ne)}")
        self._lib.row_size(type_name, ne[0])
        sizes = self._lib.ffi.new("int64_t[]", [int(n) for n in ne])
        return self._keep(
            self._lib.c.ggml_new_tensor(self.ptr, info.id, len(ne), sizes), type_name, name
        )

    def op(self, op_name: str, *args: Any, name: str = "") -> Tensor:
        """Add ggml_<op_name>(ctx, *args): tensors become pointers, None becomes NULL.

        Raises:
            SymbolMissing: the library has no such op.
        """
        self._reserve()
        ptr = getattr(self._lib.c, f"ggml_{op_name}")(self.ptr, *map(self._pass, args))
        return self._keep(ptr, self._result_type(op_name, args), name)

    def call(self, function: str, *args: Any) -> Any:
        """Call ggml_<function>(*args), without the context; return the raw value."""
        return getattr(self._lib.c, f"ggml_{function}")(*map(self._pass, args))

    def _pass(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.ptr
        if isinstance(value, str):
            return self._lib.types[value].id
        return self._lib.ffi.NULL if value is None else value

    def _result_type(self, op_name: str, args: Sequence[Any]) -> str:
        if op_name == "cast":
            return str(args[1])
        source: Tensor = args[1] if op_name == "cpy" else args[0]
        return "f32" if op_name in _GIVE_F32 else source.type

    def view_4d(
        self, t: Tensor, ne: Sequence[int], nb123: Sequence[int], offset: int, name: str = ""
    ) -> Tensor:
        """Add a view of t.

        Args:
            t: the tensor seen.
            ne: four sizes, fastest first.
            nb123: strides in bytes of dimensions 1 to 3.
            offset: bytes into t.
            name: shown in ggml's messages.
        """
        return self.op("view_4d", t, *ne, *nb123, offset, name=name)

    def permute(self, t: Tensor, order: Sequence[int], name: str = "") -> Tensor:
        """Add t with its dimensions moved: dimension i of t becomes dimension order[i]."""
        return self.op("permute", t, *order, name=name)

    def set_prec(self, t: Tensor, prec: str) -> None:
        """Ask for a product's accumulation precision.

        Args:
            t: result of mul_mat, mul_mat_id or flash_attn_ext.
            prec: "f32" or "default".

        Raises:
            UsageError: another precision.
            SymbolMissing: the library cannot set it for this op.
            Unsupported: which number stands for it there is not known.
        """
        precision.set_acc(self._lib, t.ptr, prec)

    def allocate(
        self, backend: Computing, buft_name: str | None = None, usage: str = "any"
    ) -> Buffer:
        """Give memory to all tensors of the context that have none yet.

        Args:
            backend: whose memory.
            buft_name: one of its buffer types, None for the default.
            usage: "any", "weights" or "compute".

        Raises:
            OutOfMemory: says the bytes asked for.
            UnknownDevice: no such buffer type.
        """
        c, null = self._lib.c, self._lib.ffi.NULL
        buft = backend.buft(buft_name)
        ptr = c.ggml_backend_alloc_ctx_tensors_from_buft(self.ptr, buft)
        if ptr == null and any(c.ggml_get_data(t.ptr) == null and t.nbytes for t in self._pending):
            asked = self._bytes_asked(buft)
            where = buft_name or self._lib.text(c.ggml_backend_buft_name(buft))
            raise OutOfMemory(
                f"{where} buffer of {asked} bytes cannot be allocated; use a smaller case"
            )
        self._pending.clear()
        buffer = Buffer(self._lib, ptr)
        if ptr != null:
            c.ggml_backend_buffer_set_usage(ptr, _USAGE[usage])
            self.own(buffer)
        return buffer

    def _bytes_asked(self, buft: Any) -> int:
        c, null = self._lib.c, self._lib.ffi.NULL
        if c.has("ggml_backend_alloc_ctx_tensors_from_buft_size"):
            return int(c.ggml_backend_alloc_ctx_tensors_from_buft_size(self.ptr, buft))
        bare = [t for t in self._pending if c.ggml_get_data(t.ptr) == null]
        return sum(int(c.ggml_backend_buft_get_alloc_size(buft, t.ptr)) for t in bare)

    def graph(self, *outputs: Tensor) -> Graph:
        """Return the graph that computes the outputs."""
        size = max(_SMALLEST_GRAPH, 2 * self._n_tensors)
        made = Graph(self._lib, size, [output.ptr for output in outputs])
        self.own(made)
        return made

    def own(self, thing: Owned) -> None:
        """Free something with the context, before what it had already."""
        self._owned.append(thing)

    def close(self) -> None:
        """Free graphs, buffers, then the context; harmless if done before."""
        while self._owned:
            self._owned.pop().free()
        self._pending.clear()
        if self.ptr != self._lib.ffi.NULL:
            self._lib.c.ggml_free(self.ptr)
            self.ptr = self._lib.ffi.NULL
