"""What the Vulkan loader tells of devices and ggml does not: those it skips, and drivers.

It is asked in a process of its own: a driver may crash, hang, or keep threads behind.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from typing import Any

from ggmlprobe.errors import LibraryBroken

LOADER = "libvulkan.so.1"
VISIBLE = "GGML_VK_VISIBLE_DEVICES"
SECONDS = 30.0
_NO_DRIVER = "Vulkan has no device: install a driver, or let VK_DRIVER_FILES name its .json"
_OTHER_DRIVER = "let VK_DRIVER_FILES name the .json of another"
# enum VkPhysicalDeviceType of vulkan_core.h
_TYPES = ("other", "integrated GPU", "discrete GPU", "virtual GPU", "CPU")
# VkStructureType of the same, VK_ERROR_INCOMPATIBLE_DRIVER, and the version ggml asks for
_APPLICATION_INFO, _INSTANCE_CREATE_INFO = 0, 1
_PROPERTIES_2, _DRIVER_PROPERTIES = 1000059001, 1000196000
_INCOMPATIBLE_DRIVER = -9
_VERSION_1_2 = 1 << 22 | 2 << 12
# limits and sparse properties are room only: 524 bytes, with their alignment
_DECLARATIONS = """
typedef struct { int sType; const void *pNext; const char *name; uint32_t version;
                 const char *engine; uint32_t engine_version; uint32_t api_version; } app_t;
typedef struct { int sType; const void *pNext; uint32_t flags; const app_t *app;
                 uint32_t layers; const void *layer_names;
                 uint32_t extensions; const void *extension_names; } create_t;
typedef struct { int sType; void *pNext; int id; char name[256]; char info[256];
                 uint8_t conformance[4]; } driver_t;
typedef struct { int sType; void *pNext; uint32_t api_version; uint32_t driver_version;
                 uint32_t vendor; uint32_t device; int type; char name[256]; uint8_t uuid[16];
                 uint64_t rest[128]; } properties_t;
int vkCreateInstance(const create_t *info, const void *allocator, void **instance);
int vkEnumeratePhysicalDevices(void *instance, uint32_t *count, void **devices);
void vkGetPhysicalDeviceProperties2(void *device, properties_t *properties);
"""


@dataclass(frozen=True)
class PhysicalDevice:
    """A device of the Vulkan loader, whether ggml takes it or not.

    Attributes:
        name: the hardware's name.
        type: such as discrete GPU, or CPU.
        api: version of Vulkan it has.
        driver: name and version of its driver; "" where it does not tell.
        vendor: PCI or Khronos number, hexadecimal.
    """

    name: str
    type: str
    api: str
    driver: str
    vendor: str


def physical_devices(loader: str = LOADER) -> list[PhysicalDevice]:
    """Return the devices in the loader's order, which GGML_VK_VISIBLE_DEVICES counts in.

    Call it where a crash does no harm; `ask` does.

    Args:
        loader: the loader's library.

    Raises:
        LibraryBroken: no loader, or no Vulkan 1.2; says the fix.
    """
    ffi = import_module("cffi").FFI()
    ffi.cdef(_DECLARATIONS)
    try:
        vulkan = ffi.dlopen(loader)
    except OSError:
        raise LibraryBroken(
            f"no {loader}: install the Vulkan loader (apt install libvulkan1) and a driver"
        ) from None
    app = ffi.new("app_t *", {"sType": _APPLICATION_INFO, "api_version": _VERSION_1_2})
    info = ffi.new("create_t *", {"sType": _INSTANCE_CREATE_INFO, "app": app})
    instance, count = ffi.new("void **"), ffi.new("uint32_t *")
    status = vulkan.vkCreateInstance(info, ffi.NULL, instance)
    if status == _INCOMPATIBLE_DRIVER:
        return []
    if status or vulkan.vkEnumeratePhysicalDevices(instance[0], count, ffi.NULL):
        raise LibraryBroken(f"{loader} starts no Vulkan 1.2 (status {status}): update the driver")
    handles = ffi.new("void *[]", count[0])
    if vulkan.vkEnumeratePhysicalDevices(instance[0], count, handles):
        raise LibraryBroken(f"{loader} lists no devices: update the driver")
    return [_told(ffi, vulkan, handle) for handle in ffi.unpack(handles, count[0])]


def _told(ffi: Any, vulkan: Any, handle: Any) -> PhysicalDevice:
    driver = ffi.new("driver_t *", {"sType": _DRIVER_PROPERTIES})
    told = ffi.new("properties_t *", {"sType": _PROPERTIES_2, "pNext": driver})
    vulkan.vkGetPhysicalDeviceProperties2(handle, told)

    def text(array: Any) -> str:
        return str(ffi.string(array).decode(errors="replace"))

    version = told.api_version
    return PhysicalDevice(
        name=text(told.name),
        type=_TYPES[told.type] if 0 <= told.type < len(_TYPES) else str(told.type),
        api=f"{version >> 22 & 0x7F}.{version >> 12 & 0x3FF}.{version & 0xFFF}",
        driver=f"{text(driver.name)} {text(driver.info)}".strip(),
        vendor=f"{told.vendor:#x}",
    )


@cache
def ask() -> list[PhysicalDevice]:
    """Return the loader's devices, asked in another process.

    Raises:
        LibraryBroken: no devices can be listed; says why and the fix.
    """
    command = [sys.executable, "-P", "-m", __name__]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise LibraryBroken(f"a Vulkan driver hangs; {_OTHER_DRIVER}") from None
    if done.returncode:
        raise LibraryBroken(f"a Vulkan driver ends the process; {_OTHER_DRIVER}")
    told = json.loads(done.stdout)
    if isinstance(told, str):
        raise LibraryBroken(told)
    return [PhysicalDevice(**each) for each in told]


def why_none(environ: Mapping[str, str] = os.environ) -> str:
    """Return why ggml sees no Vulkan device, and the fix.

    The rule is ggml_vk_instance_init's: the devices GGML_VK_VISIBLE_DEVICES names; without it the
    GPUs, else the first device that is no CPU.
    """
    try:
        devices = ask()
    except LibraryBroken as error:
        return str(error)
    if not devices:
        return _NO_DRIVER
    listed = "; ".join(
        f"device {number}, {each.name}, type {each.type}" for number, each in enumerate(devices)
    )
    if VISIBLE in environ:
        return f"{VISIBLE}={environ[VISIBLE]} names no device of Vulkan's, which has {listed}"
    if any(each.type != "CPU" for each in devices):
        return f"Vulkan has {listed}: check the driver"
    number = ",".join(map(str, range(len(devices))))
    return f"Vulkan has {listed}, which ggml skips: set {VISIBLE}={number}"


def properties(description: str) -> dict[str, str]:
    """What the loader tells of a device of ggml's, named by its description.

    Returns:
        `VULKAN_TYPE`, `VULKAN_API`, `VULKAN_DRIVER` and `VULKAN_VENDOR`; {} where it does not tell,
        or tells different things of two devices of that name.
    """
    try:
        named = {each for each in ask() if each.name == description}
    except LibraryBroken:
        return {}
    if len(named) != 1:
        return {}
    fields = asdict(named.pop())
    return {f"VULKAN_{name.upper()}": text for name, text in fields.items() if name != "name"}


def main() -> None:
    """Write the devices, or why there are none, to stdout as JSON."""
    try:
        told: Any = [asdict(device) for device in physical_devices()]
    except LibraryBroken as error:
        told = str(error)
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
