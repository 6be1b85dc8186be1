"""What the CUDA driver tells and ggml does not: a device's size, and why there is no device."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from ggmlprobe.ggml.dlerror import bare, explain

DRIVER = "libcuda.so.1"
# enum CUdevice_attribute of cuda.h
_ATTRIBUTES = {"sm_count": 16, "major": 75, "minor": 76}
_DECLARATIONS = """
int cuInit(unsigned int flags);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetCount(int *count);
int cuGetErrorName(int error, const char **name);
"""


def _opened(driver: str) -> tuple[Any, Any]:
    """The cffi FFI and the driver library. Raises OSError."""
    # the parent, which names devices only, goes without cffi
    ffi = import_module("cffi").FFI()
    ffi.cdef(_DECLARATIONS)
    return ffi, ffi.dlopen(driver)


def properties(device_name: str, driver: str = DRIVER) -> dict[str, str]:
    """Compute capability and SM count of a ggml device named CUDA0, CUDA1, ...

    ggml numbers devices as the driver does, after CUDA_VISIBLE_DEVICES.

    Args:
        device_name: ggml's name of the device.
        driver: the driver library.

    Returns:
        `COMPUTE_CAPABILITY` (such as 9.0) and `SM_COUNT`; {} where the driver does not say.
    """
    number = re.fullmatch(r"CUDA(\d+)", device_name)
    if number is None:
        return {}
    try:
        ffi, cuda = _opened(driver)
    except OSError:
        return {}
    device, value = ffi.new("int *"), ffi.new("int *")
    if cuda.cuInit(0) or cuda.cuDeviceGet(device, int(number[1])):
        return {}
    told = {}
    for name, attribute in _ATTRIBUTES.items():
        if cuda.cuDeviceGetAttribute(value, attribute, device[0]):
            return {}
        told[name] = value[0]
    capability = f"{told['major']}.{told['minor']}"
    return {"COMPUTE_CAPABILITY": capability, "SM_COUNT": str(told["sm_count"])}


def why_none(driver: str = DRIVER) -> str:
    """Say why the CUDA backend has no device, with what to do about it."""
    try:
        ffi, cuda = _opened(driver)
    except OSError as error:
        return explain("it", f"{bare(str(error))}")
    if status := cuda.cuInit(0):
        name = ffi.new("const char **")
        named = not cuda.cuGetErrorName(status, name) and name[0] != ffi.NULL
        said = ffi.string(name[0]).decode() if named else f"error {status}"
        return f"cuInit of {driver} says {said}: check the NVIDIA driver and its devices"
    count = ffi.new("int *")
    if cuda.cuDeviceGetCount(count) or not count[0]:
        return f"{driver} has none: check CUDA_VISIBLE_DEVICES"
    return f"{driver} has {count[0]}: the driver may be older than this build's CUDA needs"
