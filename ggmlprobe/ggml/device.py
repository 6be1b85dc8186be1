"""The devices of a loaded library, and a backend that computes on one of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ggmlprobe.errors import ComputeFailed, OutOfMemory, UnknownDevice
from ggmlprobe.ggml import cuda_driver, memory

if TYPE_CHECKING:
    from ggmlprobe.ggml.library import Library
    from ggmlprobe.ggml.tensor import Graph, Tensor

# enum ggml_backend_dev_type of ggml-backend.h.
_TYPES = ("CPU", "GPU", "IGPU", "ACCEL", "META")
# enum ggml_status of ggml.h.
_STATUS = {-2: "ALLOC_FAILED", -1: "FAILED", 0: "SUCCESS", 1: "ABORTED"}


@dataclass(frozen=True)
class DeviceInfo:
    """One device of a library.

    Attributes:
        name: ggml's name, such as CPU or CUDA0.
        description: the hardware's name.
        type: CPU, GPU, IGPU, ACCEL or META.
        memory_free: bytes that can still be allocated (CPU: as far as the system and its
            control groups allow).
        memory_total: bytes.
        backend: name of the backend it belongs to.
        features: what ggml_backend_get_features lists, {} where the backend has none; for CUDA also
            COMPUTE_CAPABILITY and SM_COUNT from the driver.
        bufts: names of its buffer types: default, extra ones, then host.
        endpoint: host:port of the server it is on, None for one of this machine.
    """

    name: str
    description: str
    type: str
    memory_free: int
    memory_total: int
    backend: str
    features: dict[str, str]
    bufts: list[str]
    endpoint: str | None = None


def _proc(lib: Library, device: Any, name: str, kind: str) -> Any:
    """Return a backend's optional function, or None."""
    reg = lib.c.ggml_backend_dev_backend_reg(device)
    if reg == lib.ffi.NULL:
        return None
    address = lib.c.ggml_backend_reg_get_proc_address(reg, name.encode())
    return None if address == lib.ffi.NULL else lib.ffi.cast(kind, address)


def _features(lib: Library, device: Any) -> dict[str, str]:
    get = _proc(lib, device, "ggml_backend_get_features", "ggml_backend_get_features_t")
    features: dict[str, str] = {}
    if get is None:
        return features
    entry = get(lib.c.ggml_backend_dev_backend_reg(device))
    while entry and entry.name:
        features[lib.text(entry.name)] = lib.text(entry.value)
        entry += 1
    return features


def _bufts(lib: Library, device: Any) -> dict[str, Any]:
    """Return a device's buffer types by name: default first, then extra ones, then host."""
    found = [lib.c.ggml_backend_dev_buffer_type(device)]
    extra = _proc(
        lib, device, "ggml_backend_dev_get_extra_bufts", "ggml_backend_dev_get_extra_bufts_t"
    )
    entry = extra(device) if extra else None
    while entry and entry[0]:
        found.append(entry[0])
        entry += 1
    found.append(lib.c.ggml_backend_dev_host_buffer_type(device))
    return {lib.text(lib.c.ggml_backend_buft_name(buft)): buft for buft in found if buft}


def _type(lib: Library, device: Any, backend: str) -> str:
    number = lib.c.ggml_backend_dev_type(device)
    # Before IGPU was added in September 2025, 2 meant ACCEL; BLAS is the one such device.
    if backend == "BLAS":
        return "ACCEL"
    return _TYPES[number] if 0 <= number < len(_TYPES) else str(number)


def _info(lib: Library, device: Any) -> DeviceInfo:
    free, total = lib.ffi.new("size_t *"), lib.ffi.new("size_t *")
    lib.c.ggml_backend_dev_memory(device, free, total)
    backend = lib.text(lib.c.ggml_backend_reg_name(lib.c.ggml_backend_dev_backend_reg(device)))
    type_ = _type(lib, device, backend)
    room = memory.available() if type_ == "CPU" else None
    name = lib.text(lib.c.ggml_backend_dev_name(device))
    return DeviceInfo(
        name=name,
        description=lib.text(lib.c.ggml_backend_dev_description(device)),
        type=type_,
        memory_free=free[0] if room is None else min(free[0] or room, room),
        memory_total=total[0],
        backend=backend,
        features=_features(lib, device) | cuda_driver.properties(name),
        bufts=list(_bufts(lib, device)),
        endpoint=lib.endpoints.get(name),
    )


def _handles(lib: Library) -> list[Any]:
    return [lib.c.ggml_backend_dev_get(index) for index in range(lib.c.ggml_backend_dev_count())]


def devices(lib: Library) -> list[DeviceInfo]:
    """Return every device the library offers, in its own order."""
    return [_info(lib, device) for device in _handles(lib)]


def cpu_name(lib: Library) -> str:
    """Return the name of the library's CPU device.

    Raises:
        UnknownDevice: it has none.
    """
    for device in _handles(lib):
        if lib.c.ggml_backend_dev_type(device) == 0:
            return lib.text(lib.c.ggml_backend_dev_name(device))
    raise UnknownDevice(f"no CPU device in {lib.found.directory}; give a build with libggml-cpu")


def _pick(lib: Library, name: str | None) -> Any:
    """Return the device of that name in any case; without one the first GPU, else the CPU."""
    handles = _handles(lib)
    names = [lib.text(lib.c.ggml_backend_dev_name(device)) for device in handles]
    if name is None:
        types = [lib.c.ggml_backend_dev_type(device) for device in handles]
        wanted = 1 if 1 in types else 0
        if wanted in types:
            return handles[types.index(wanted)]
    for device, each in zip(handles, names, strict=True):
        if name is not None and each.lower() == name.lower():
            return device
    asked = f"no device {name}" if name is not None else "no CPU or GPU device"
    silent = "".join(f"; {line}" for line in lib.silent_backends())
    raise UnknownDevice(f"{asked} in {lib.found.directory}; there are: {', '.join(names)}{silent}")


class Backend:
    """A started device.

    Attributes:
        info: the device.
        ptr: ggml_backend_t.
        compute_seconds: wall time spent inside ggml_backend_graph_compute so far.
        computes: how many graphs were computed.
        around: makes a context that is entered around each compute, apart from its time.
    """

    def __init__(self, lib: Library, device_name: str | None = None) -> None:
        """Start a device.

        Args:
            lib: the library.
            device_name: in any case; None for the first GPU, else the CPU.

        Raises:
            UnknownDevice: no device of that name, or it cannot be started.
        """
        self.lib = lib
        self.device = _pick(lib, device_name)
        self.info = _info(lib, self.device)
        self.compute_seconds = 0.0
        self.computes = 0
        self.around: Callable[[], AbstractContextManager[None]] = nullcontext
        self.ptr = lib.c.ggml_backend_dev_init(self.device, lib.ffi.NULL)
        if self.ptr == lib.ffi.NULL:
            raise UnknownDevice(f"device {self.info.name} cannot be started; give another --device")
        self._bufts = _bufts(lib, self.device)
        self._set_threads = _proc(
            lib, self.device, "ggml_backend_set_n_threads", "ggml_backend_set_n_threads_t"
        )

    def set_threads(self, n: int) -> None:
        """Use n threads from the next compute on; no effect on devices without that choice."""
        if self._set_threads is not None:
            self._set_threads(self.ptr, n)

    def memory_free(self) -> int:
        """Return the bytes that can still be allocated now; 0 where the device does not say."""
        return _info(self.lib, self.device).memory_free

    def buft(self, name: str | None = None) -> Any:
        """Return a buffer type by name in any case; None for the device's default.

        Raises:
            UnknownDevice: the device has no such buffer type; lists what it has.
        """
        if name is None:
            return next(iter(self._bufts.values()))
        for each, buft in self._bufts.items():
            if each.lower() == name.lower():
                return buft
        there = ", ".join(self._bufts)
        raise UnknownDevice(f"device {self.info.name} has no buffer type {name}; it has {there}")

    def supports(self, tensor: Tensor) -> bool:
        """Tell whether the device can compute this op as it stands."""
        return bool(self.lib.c.ggml_backend_dev_supports_op(self.device, tensor.ptr))

    def compute(self, graph: Graph) -> None:
        """Compute a graph and wait for it.

        Raises:
            OutOfMemory: the backend could not allocate working memory.
            ComputeFailed: any other status than success.
        """
        run, backend, target = self.lib.c.ggml_backend_graph_compute, self.ptr, graph.ptr
        with self.around():
            start = time.perf_counter()
            status = run(backend, target)
            self.compute_seconds += time.perf_counter() - start
        self.computes += 1
        if status == 0:
            return
        name = _STATUS.get(status, str(status))
        text = f"{self.info.name}: graph_compute returned {name}"
        if name == "ALLOC_FAILED":
            raise OutOfMemory(f"{text}; use a smaller case")
        raise ComputeFailed(f"{text}; see the library's messages on stderr")

    def free(self) -> None:
        """Stop the device; harmless if done before."""
        if self.ptr != self.lib.ffi.NULL:
            self.lib.c.ggml_backend_free(self.ptr)
            self.ptr = self.lib.ffi.NULL
