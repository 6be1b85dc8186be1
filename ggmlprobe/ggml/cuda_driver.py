"""What the CUDA driver tells of a device and ggml does not: compute capability and SM count."""

from __future__ import annotations

import re
from importlib import import_module

DRIVER = "libcuda.so.1"
# enum CUdevice_attribute of cuda.h
_ATTRIBUTES = {"sm_count": 16, "major": 75, "minor": 76}
_DECLARATIONS = """
int cuInit(unsigned int flags);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetAttribute(int *value, int attribute, int device);
"""


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
    # the parent, which names devices only, goes without cffi
    ffi = import_module("cffi").FFI()
    ffi.cdef(_DECLARATIONS)
    try:
        cuda = ffi.dlopen(driver)
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
