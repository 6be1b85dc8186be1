"""Numbers of ops, which change from release to release, read by name from the library."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ggmlprobe.ggml.library import Library

# In every version that has a device registry, so that a scan for them ends inside the table.
NAMES = ("MUL_MAT", "MUL_MAT_ID", "SOFT_MAX", "FLASH_ATTN_EXT")
# More than any version has.
_LAST_ID = 256


def op_ids(lib: Library) -> dict[str, int]:
    """The ids of NAMES in enum ggml_op; empty where the library does not export op names."""
    found: dict[str, int] = {}
    for number in range(_LAST_ID if lib.has("ggml_op_name") else 0):
        if len(found) == len(NAMES):
            break
        name = lib.text(lib.c.ggml_op_name(number))
        if name in NAMES:
            found[name] = number
    return found
