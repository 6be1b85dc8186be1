"""Run in a process of its own: interposer and stand-in as they are opened for a probe, then asks.

Arguments: interposer (or -), stand-in. Reads a list of [function, arguments] from stdin as JSON and
writes the answers. GGMLPROBE_ARM is the arm.
"""

import ctypes
import json
import sys


def main() -> None:
    """Answer what stdin asks."""
    interposer = None
    if sys.argv[1] != "-":
        interposer = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
    # as ggml opens a plug-in
    library = ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_LOCAL)
    asks = Asks(library, interposer)
    json.dump([getattr(asks, name)(*given) for name, given in json.load(sys.stdin)], sys.stdout)


class Asks:
    """The stand-in's functions in Python's types."""

    def __init__(self, library: ctypes.CDLL, interposer: ctypes.CDLL | None) -> None:
        self.library, self.interposer = library, interposer
        for name in ("standin_mul_mat", "standin_mul_mat_id", "standin_said"):
            getattr(library, name).restype = ctypes.c_char_p

    def mul_mat(self, type_id: int, columns: int, cc: int = 900, k: int = 256) -> str:
        """Path of a product."""
        k_and_columns = (ctypes.c_int64(k), ctypes.c_int64(columns))
        path: bytes = self.library.standin_mul_mat(type_id, cc, *k_and_columns)
        return path.decode()

    def mul_mat_id(self, type_id: int, tokens: int, cc: int = 900) -> str:
        """Path of a product by experts."""
        path: bytes = self.library.standin_mul_mat_id(type_id, cc, ctypes.c_int64(tokens))
        return path.decode()

    def vec_q(self, columns: int, with_ids: bool) -> tuple[list[float], str]:
        """Output columns where column i of the input is i + 1, and the sizes of the calls."""
        inputs = (ctypes.c_float * (3 * columns))(*(0.0 for _ in range(3 * columns)))
        outputs = (ctypes.c_float * (3 * columns))()
        for i in range(columns):
            inputs[3 * i] = i + 1.0
        count, ids = ctypes.c_int64(columns), ctypes.c_bool(with_ids)
        self.library.standin_vec_q(inputs, outputs, count, ids)
        return list(outputs), self.said()

    def attention(self, head: int, type_id: int) -> str:
        """Which attention kernel ran."""
        self.library.standin_attention(ctypes.c_int64(head), type_id)
        return self.said()

    def said(self) -> str:
        """What the stand-in wrote down."""
        text: bytes = self.library.standin_said()
        return text.decode().strip()

    def grow_tensors(self) -> None:
        """From now on the library's tensors are larger."""
        self.library.standin_grow_tensors()

    def calls(self) -> dict[str, int]:
        """Calls of each replaced function."""
        assert self.interposer is not None
        self.interposer.ggmlprobe_interposed.restype = ctypes.c_char_p
        self.interposer.ggmlprobe_calls.restype = ctypes.c_uint64
        counts, number = {}, 0
        while (name := self.interposer.ggmlprobe_interposed(number)) is not None:
            counts[name.decode()] = self.interposer.ggmlprobe_calls(number)
            number += 1
        return counts


if __name__ == "__main__":
    main()
