"""What a file that cannot be opened lacks, in one line with the fix. Pure functions."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass

# ELF e_machine (System V ABI) by the names platform.machine() uses.
_MACHINES = {
    3: "i386",
    20: "ppc",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
    258: "loongarch64",
}
_SAME_MACHINE = {"amd64": "x86_64", "arm64": "aarch64", "i686": "i386", "ppc64le": "ppc64"}
_MACH_O = {b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe"}
_NATIVE = {"Linux": "elf", "Darwin": "mach-o", "Windows": "pe"}
_ELF_HEADER = 20
_ELF_BIG_ENDIAN = 2

_ABSENT = re.compile(r"(?P<name>[^\s:]+): cannot open shared object file: No such file")
_VERSION = re.compile(
    r"version [`'](?P<version>\w+_[\w.]+)' not found(?: \(required by (?P<by>[^)]+)\))?"
)
_UNDEFINED = re.compile(r"undefined symbol: (?P<symbol>[^\s,]+)")
_NO_LIBRARY = re.compile(
    r"invalid ELF|file too short|not a dynamic|cannot read file data|cannot dynamically load"
)

# How to get a library that dlopen did not find; the first pattern that fits its name holds.
_FIXES = [
    (
        r"libcuda\.so|libnvidia-ml\.so",
        "it comes with the NVIDIA driver, so install the driver, or give a build without CUDA",
    ),
    (
        r"lib(?:cublas|cublasLt|cudart|nvrtc)\.so\.(?P<major>\d+)",
        "install the CUDA {major} runtime and put its folder into LD_LIBRARY_PATH",
    ),
    (r"libnccl\.so", "install NCCL and put its folder into LD_LIBRARY_PATH"),
    (
        r"lib(?:amdhip64|rocblas|hipblas|hipblaslt)\.so",
        "install ROCm and put its folder into LD_LIBRARY_PATH",
    ),
    (r"libvulkan\.so", "install the Vulkan loader (Debian: libvulkan1)"),
    (r"libgomp\.so", "install the OpenMP runtime (Debian: libgomp1)"),
    (r"libomp\.so", "install the OpenMP runtime (Debian: libomp5)"),
    (r"libc\.musl|ld-musl", "the file is built for musl (Alpine), so give a build for glibc"),
    (r"ggml|llama", "it belongs beside the others, so give the folder of the whole build"),
    (r"", "install it, or put its folder into LD_LIBRARY_PATH"),
]


@dataclass(frozen=True)
class Image:
    """What the first bytes of a file say it is: "elf", "mach-o", "pe", "text" or "other"."""

    format: str
    machine: str | None = None


def image(header: bytes) -> Image:
    """Tell a file's format and processor from its first 64 bytes."""
    if header[:4] == b"\x7fELF" and len(header) >= _ELF_HEADER:
        number = int.from_bytes(header[18:20], "big" if header[5] == _ELF_BIG_ENDIAN else "little")
        return Image("elf", _MACHINES.get(number, f"machine {number}"))
    if header[:4] in _MACH_O:
        return Image("mach-o")
    if header[:2] == b"MZ":
        return Image("pe")
    text = bool(header) and set(header) <= set(string.printable.encode())
    return Image("text" if text else "other")


def wrong_image(path: str, found: Image, system: str, machine: str) -> str | None:
    """Say why a file of this format cannot run here, or None if it may.

    Args:
        path: how the user knows the file.
        found: from image().
        system: platform.system().
        machine: platform.machine().
    """
    here = _SAME_MACHINE.get(machine.lower(), machine.lower())
    if found.format in {"text", "other"}:
        kind = "a text file" if found.format == "text" else "of no known format"
        return f"{path} is {kind}, no shared library; give the folder that holds libggml.so"
    if found.format != _NATIVE.get(system, found.format):
        return f"{path} is for another system ({found.format}); give a build for {system}"
    if found.machine and found.machine != here:
        return f"{path} is for {found.machine} and this machine is {here}; give a build for {here}"
    return None


def bare(message: str) -> str:
    """Return dlerror's own text out of what cffi makes of it."""
    text = message.partition(".  Additionally, ctypes")[0]
    return text.partition("': ")[2] or text


def missing_name(message: str) -> str | None:
    """Return the file name dlopen could not find, if that is what the message says."""
    match = _ABSENT.search(message)
    return match["name"] if match else None


def _fix(name: str) -> str:
    """Return how to get a library that dlopen did not find."""
    for pattern, text in _FIXES:
        match = re.search(pattern, name)
        if match:
            return text.format(**match.groupdict())
    return ""


def _newer(path: str, match: re.Match[str], glibc: str) -> str:
    version = match["version"]
    here = f", this system has {glibc}" if glibc and version.startswith("GLIBC_") else ""
    return (
        f"{match['by'] or path} is built for a newer system (needs {version}{here}): "
        "give a build made on this system or an older one"
    )


def explain(path: str, message: str, glibc: str = "") -> str:
    """Turn dlopen's message into one line that names what is missing and the fix.

    Args:
        path: the file that was opened.
        message: the text of dlerror, as glibc writes it.
        glibc: this system's version, "2.36", where known.
    """
    text = " ".join(message.split())
    if absent := missing_name(text):
        return f"{path} needs {absent}, which is not here; {_fix(absent)}"
    if version := _VERSION.search(text):
        return _newer(path, version, glibc)
    if undefined := _UNDEFINED.search(text):
        return (
            f"{path} needs the symbol {undefined['symbol']}, which no library beside it has: "
            "give a folder whose files come from one build"
        )
    if "wrong ELF class" in text:
        return f"{path} is for another word size ({text.rpartition(' ')[2]}): give a 64-bit build"
    if _NO_LIBRARY.search(text):
        return f"{path} is damaged or no shared library: give the folder that holds libggml.so"
    return f"{path} cannot be opened: {text}"
