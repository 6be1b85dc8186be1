"""Devices of a ggml-rpc-server, registered with a loaded library as llama.cpp's --rpc does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ggmlprobe.errors import NoServer, SymbolMissing

if TYPE_CHECKING:
    from ggmlprobe.ggml.library import Library

_BACKEND = "RPC"


def register(lib: Library, endpoint: str) -> list[str]:
    """Register every device that a server offers; their names.

    ggml ends the process where the server does not answer or speaks another protocol.

    Args:
        lib: the library.
        endpoint: host:port.

    Raises:
        SymbolMissing: the library has no RPC backend.
        NoServer: the server offers no device.
    """
    before = lib.c.ggml_backend_dev_count()
    if add := _proc(lib, "ggml_backend_rpc_add_server"):
        reg = add(endpoint.encode())
        if reg != lib.ffi.NULL:
            lib.c.ggml_backend_register(reg)
    elif add := _proc(lib, "ggml_backend_rpc_add_device"):
        # protocol 2, where a server had one device
        device = add(endpoint.encode())
        if device != lib.ffi.NULL:
            lib.c.ggml_backend_device_register(device)
    else:
        raise SymbolMissing(
            f"the libggml in {lib.found.directory} has no RPC backend: "
            "give a build with -DGGML_RPC=ON"
        )
    new = range(before, lib.c.ggml_backend_dev_count())
    if not new:
        raise NoServer(f"rpc://{endpoint}: no device, or of another version: use one llama.cpp")
    return [
        lib.text(lib.c.ggml_backend_dev_name(lib.c.ggml_backend_dev_get(index))) for index in new
    ]


def computed(lib: Library) -> Callable[[Any, Any], int]:
    """Return ggml_backend_graph_compute for a server's device, with the wait that it lacks.

    It comes back once the graph is sent; a byte of the result cannot be read before it is computed.
    """

    def compute(backend: Any, graph: Any) -> int:
        status: int = lib.c.ggml_backend_graph_compute(backend, graph)
        if status == 0:
            last = lib.c.ggml_graph_node(graph, lib.c.ggml_graph_n_nodes(graph) - 1)
            lib.c.ggml_backend_tensor_get(last, lib.ffi.new("char *"), 0, 1)
        return status

    return compute


def _proc(lib: Library, name: str) -> Any:
    """Return a function of the RPC backend, or None."""
    for index in range(lib.c.ggml_backend_reg_count()):
        reg = lib.c.ggml_backend_reg_get(index)
        if lib.text(lib.c.ggml_backend_reg_name(reg)) != _BACKEND:
            continue
        address = lib.c.ggml_backend_reg_get_proc_address(reg, name.encode())
        return None if address == lib.ffi.NULL else lib.ffi.cast(f"{name}_t", address)
    return None
