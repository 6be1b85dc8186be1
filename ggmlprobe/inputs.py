"""Inputs from a counter, named by a seed and a stream; tests/c/inputs.h makes the same bits in C.

Element i of a stream takes 16 bits of the 64-bit hash of counter i // 4 and looks them up in a
table, so any slice can be made by itself and nothing depends on the order of calls. The hash is the
output function of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
2014); stream names enter through FNV-1a.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from ggmlprobe.errors import UsageError

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_MIX1 = 0xBF58476D1CE4E5B9
_MIX2 = 0x94D049BB133111EB
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3

_CHUNK = 1 << 14  # hashes per step: 128 KiB, so that a step's temporaries stay in the L2 cache

OUTLIER_GAIN = 32.0
_OUTLIER_SHIFT = 58  # the top 6 bits are all zero once in 64

# Upper half of the 256 mid-point quantiles of a normal, at most 1023; two entries are off by one so
# that the mean square is exactly 2^17. The lower half is its mirror image.
_HALF = (
    2, 5, 9, 12, 16, 20, 23, 27, 30, 34, 37, 41, 45, 48, 52, 55,
    59, 63, 66, 70, 73, 77, 81, 84, 88, 91, 95, 99, 103, 107, 110, 114,
    118, 121, 125, 129, 133, 137, 140, 144, 148, 152, 156, 160, 164, 168, 171, 176,
    180, 184, 188, 192, 196, 200, 204, 208, 213, 217, 221, 225, 230, 234, 239, 243,
    247, 252, 256, 261, 266, 270, 275, 280, 285, 290, 294, 299, 304, 310, 315, 320,
    325, 330, 336, 341, 347, 353, 358, 364, 370, 376, 382, 389, 395, 401, 408, 415,
    422, 429, 436, 443, 451, 459, 467, 475, 483, 492, 501, 511, 520, 530, 541, 552,
    564, 576, 589, 602, 617, 632, 649, 667, 688, 710, 736, 766, 802, 849, 916, 1023,
)  # fmt: skip


@functools.cache
def _table(dtype: str) -> npt.NDArray[Any]:
    """65536 values A[i >> 8] + A[i & 255] times 2^-9: at most 11 significant bits, exact in f16."""
    half = np.array(_HALF, dtype=np.int16)
    column = np.concatenate([-half[::-1], half])
    sums = (column[:, None] + column[None, :]).ravel()
    table: npt.NDArray[Any] = (sums.astype(np.float32) / np.float32(512)).astype(dtype)
    table.flags.writeable = False
    return table


def _mix(z: int) -> int:
    """splitmix64's finalizer of one 64-bit integer."""
    z = ((z ^ (z >> 30)) * _MIX1) & _MASK
    z = ((z ^ (z >> 27)) * _MIX2) & _MASK
    return z ^ (z >> 31)


def _key(seed: int, stream: str) -> int:
    if not 0 <= seed <= _MASK:
        raise UsageError(f"seed {seed} is out of range: give an integer from 0 to 2^64 - 1")
    name = _FNV_OFFSET
    for byte in stream.encode():
        name = ((name ^ byte) * _FNV_PRIME) & _MASK
    return _mix(seed ^ name)


def _hash_into(z: npt.NDArray[np.uint64], scratch: npt.NDArray[np.uint64]) -> None:
    """Replace key + counter * GAMMA in ``z`` by its hash; both arrays have the same length."""
    for shift, factor in ((30, _MIX1), (27, _MIX2)):
        np.right_shift(z, np.uint64(shift), out=scratch)
        np.bitwise_xor(z, scratch, out=z)
        np.multiply(z, np.uint64(factor), out=z)
    np.right_shift(z, np.uint64(31), out=scratch)
    np.bitwise_xor(z, scratch, out=z)


def _hashes(seed: int, stream: str, count: int) -> npt.NDArray[np.uint64]:
    z = np.arange(count, dtype=np.uint64) * np.uint64(_GAMMA) + np.uint64(_key(seed, stream))
    _hash_into(z, np.empty_like(z))
    return z


def _lookup(seed: int, stream: str, count: int, start: int, dtype: str) -> npt.NDArray[Any]:
    """Table values ``start`` to ``start + count`` of a stream, chunk by chunk."""
    table = _table(dtype)
    first, last = start // 4, -(-(start + count) // 4)
    out = np.empty(4 * (last - first), dtype=dtype)
    steps = np.arange(_CHUNK, dtype=np.uint64) * np.uint64(_GAMMA)
    key = _key(seed, stream)
    z, scratch = np.empty_like(steps), np.empty_like(steps)
    for counter in range(first, last, _CHUNK):
        n = min(_CHUNK, last - counter)
        np.add(steps[:n], np.uint64((key + counter * _GAMMA) & _MASK), out=z[:n])
        _hash_into(z[:n], scratch[:n])
        lanes = z[:n].astype("<u8", copy=False).view("<u2")
        at = 4 * (counter - first)
        out[at : at + 4 * n] = table[lanes]
    return out[start - 4 * first : start - 4 * first + count]


def normal(seed: int, stream: str, count: int, start: int = 0) -> npt.NDArray[np.float32]:
    """Near-normal values with mean 0 and standard deviation 1, multiples of 2^-9 below 4.

    Args:
        seed: 0 to 2^64 - 1.
        stream: name of the tensor; streams of one seed are independent.
        count: how many values.
        start: index of the first; ``normal(s, n, c, start=i)`` is ``normal(s, n, i + c)[i:]``.

    Returns:
        float32[count], every value exact in float16 as well.

    Raises:
        UsageError: seed out of range.
    """
    return _lookup(seed, stream, count, start, "float32")


def normal_f16(seed: int, stream: str, count: int, start: int = 0) -> npt.NDArray[np.float16]:
    """The values of :func:`normal` as float16[count], without a float32 copy in between."""
    return _lookup(seed, stream, count, start, "float16")


def outlier_gain(seed: int, stream: str, channels: int) -> npt.NDArray[np.float32]:
    """Gain per channel: 32 for about one channel in 64, else 1.

    Models have few activation channels that are tens of times larger than the rest, the same ones
    for every token (Dettmers et al., "LLM.int8()", 2022, section 4).

    Returns:
        float32[channels], to be multiplied with the values of a token.
    """
    rare = _hashes(seed, stream + ":outlier_gain", channels) >> np.uint64(_OUTLIER_SHIFT) == 0
    return np.where(rare, np.float32(OUTLIER_GAIN), np.float32(1))


def uniform_int(seed: int, stream: str, count: int, bound: int) -> npt.NDArray[np.int64]:
    """Integers from 0 to bound - 1 as int64[count]; some are likelier by at most bound / 2^32.

    Raises:
        ValueError: bound is not from 1 to 2^32.
    """
    if not 1 <= bound <= 1 << 32:
        raise ValueError(f"bound {bound} is not from 1 to 2^32")
    high = _hashes(seed, stream + ":uniform_int", count) >> np.uint64(32)
    return ((high * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


def permutation(seed: int, stream: str, n: int) -> npt.NDArray[np.int64]:
    """The integers 0 to n - 1 as int64[n] in the order of their hashes (ties: smaller first)."""
    return np.argsort(_hashes(seed, stream + ":permutation", n), kind="stable").astype(np.int64)
