"""Libraries whose functions take the place of libggml's: whether they come first.

They name what they replace in `ggmlprobe_interposed(i)`, and count its calls in
`ggmlprobe_calls(i)`; that an arm took effect only the names of the kernels can show.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from pathlib import Path


def _replaced(library: ctypes.CDLL) -> Iterator[str]:
    """Symbol of each function a library replaces; none for a foreign library."""
    try:
        name_of = library.ggmlprobe_interposed
    except AttributeError:
        return
    name_of.restype = ctypes.c_char_p
    number = 0
    while (name := name_of(number)) is not None:
        yield name.decode()
        number += 1


def _address(library: ctypes.CDLL, symbol: str) -> int | None:
    try:
        return ctypes.cast(library[symbol], ctypes.c_void_p).value
    except AttributeError:
        return None


def overshadowed(paths: Sequence[Path]) -> list[str]:
    """Return the symbols that another library in this process defines in front of these.

    Args:
        paths: libraries that were opened RTLD_GLOBAL.
    """
    everywhere = ctypes.CDLL(None)
    found = []
    for path in paths:
        own = ctypes.CDLL(str(path))
        for symbol in _replaced(own):
            if _address(own, symbol) != _address(everywhere, symbol):
                found.append(symbol)
    return found
