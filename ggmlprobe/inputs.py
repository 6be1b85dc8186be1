"""Inputs from a counter, named by a seed and a stream; tests/c/inputs.h makes the same bits in C.

Element i of a stream takes 16 bits of the 64-bit hash of counter i // 4 and looks them up in a
table, so any slice can be made by itself and nothing depends on the order of calls. The hash is the
output function of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
2014); stream names enter through FNV-1a.

Values use all 24 bits of float32. On a coarse grid (11 bits, say) products and their sums would be
exact in float32, and neither the order of a sum, nor a fused multiply-add, nor activations rounded
to f16 on one path only would show in the bits.
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

POOL_WEIGHTS = 2**20
OUTLIER_GAIN = 32.0
_OUTLIER_SHIFT = 58  # the top 6 bits are all zero once in 64

# A normal's quantiles, one at random from each 256th, rounded to integers below 2^23: mean 0, mean
# square 2^43. No two of them sum to 0.
QUANTILES = (
    -8388607, -7335123, -6833944, -6693956, -6185478, -5939760, -5775509, -5567851,
    -5426532, -5380611, -5114124, -5072784, -4946110, -4858534, -4736298, -4639454,
    -4538729, -4416110, -4384675, -4229695, -4209451, -4122715, -4037286, -3980231,
    -3916224, -3847420, -3786311, -3669374, -3618216, -3569209, -3536566, -3434375,
    -3375325, -3317477, -3275877, -3243435, -3191373, -3149784, -3103464, -3054170,
    -2979286, -2945829, -2897534, -2849216, -2820057, -2753633, -2718973, -2658016,
    -2610697, -2582948, -2545228, -2516092, -2466064, -2414402, -2362152, -2353292,
    -2276587, -2263256, -2205916, -2185576, -2138975, -2094543, -2052167, -2026647,
    -2003612, -1957184, -1909230, -1868265, -1853668, -1809651, -1779199, -1739582,
    -1696805, -1682196, -1640077, -1616089, -1575907, -1547800, -1515769, -1463773,
    -1438317, -1418781, -1376506, -1349030, -1314965, -1271611, -1234499, -1209262,
    -1190005, -1149965, -1126151, -1082506, -1072714, -1041913, -1002372, -957542,
    -939710, -894085, -874065, -848404, -819067, -795671, -764601, -721856,
    -695027, -678560, -633498, -593836, -564302, -537785, -510468, -476963,
    -451168, -423135, -410074, -369404, -351797, -298269, -285282, -243685,
    -210719, -181774, -166028, -135578, -112471, -65157, -48843, -25297,
    -1116, 29429, 66155, 105157, 138075, 171289, 198807, 206792,
    248383, 271159, 290835, 320889, 376828, 385483, 433180, 450328,
    489079, 516738, 536720, 576385, 591344, 638161, 669815, 691031,
    708951, 744325, 766955, 804369, 843240, 862288, 904916, 921495,
    951349, 986229, 1034024, 1038373, 1088290, 1111403, 1133111, 1165628,
    1209975, 1253627, 1289897, 1291039, 1332246, 1375880, 1409528, 1436398,
    1470900, 1510114, 1518770, 1564797, 1618527, 1626799, 1661008, 1696606,
    1741919, 1770287, 1815346, 1840723, 1882663, 1930340, 1943005, 1970649,
    2033553, 2059581, 2080101, 2143794, 2155862, 2215285, 2266195, 2298179,
    2344752, 2350064, 2403486, 2449100, 2488329, 2521908, 2589059, 2599160,
    2655976, 2721768, 2754570, 2793245, 2831604, 2881637, 2944475, 2964630,
    3044780, 3101215, 3134116, 3173016, 3209158, 3301666, 3356619, 3400432,
    3476495, 3508546, 3569799, 3649371, 3668311, 3734476, 3811914, 3913084,
    3956161, 4018433, 4067130, 4207279, 4231975, 4304346, 4445197, 4506007,
    4648936, 4718413, 4844190, 4979235, 4995550, 5151393, 5364838, 5503965,
    5678840, 5898327, 6046231, 6296080, 6630472, 7017129, 7515819, 8388586,
)  # fmt: skip


@functools.cache
def _table(dtype: str) -> npt.NDArray[Any]:
    """65536 sums of two quantiles: integers below 2^24, so exact in float32, times 2^-22."""
    column = np.array(QUANTILES, dtype=np.int32)
    sums = (column[:, None] + column[None, :]).ravel()
    table: npt.NDArray[Any] = (sums.astype(np.float32) * np.float32(2.0**-22)).astype(dtype)
    table.flags.writeable = False
    return table


def pool_rows(k: int) -> int:
    """Distinct rows that a weight tensor has: the largest prime not above max(61, 2**20 // k).

    About 1 Mi weights; a prime count lets every row meet every lane of a kernel's tile.
    """
    rows = max(61, POOL_WEIGHTS // k)
    while any(rows % divisor == 0 for divisor in range(2, int(rows**0.5) + 1)):
        rows -= 1
    return rows


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
    z: npt.NDArray[np.uint64] = np.arange(count, dtype=np.uint64)
    z *= np.uint64(_GAMMA)
    z += np.uint64(_key(seed, stream))
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
    """Near-normal values with mean 0 and standard deviation 1, multiples of 2^-22 below 4.

    Args:
        seed: 0 to 2^64 - 1.
        stream: name of the tensor; streams of one seed are independent.
        count: how many values.
        start: index of the first; ``normal(s, n, c, start=i)`` is ``normal(s, n, i + c)[i:]``.

    Returns:
        float32[count].

    Raises:
        UsageError: seed out of range.
    """
    return _lookup(seed, stream, count, start, "float32")


def normal_f16(seed: int, stream: str, count: int, start: int = 0) -> npt.NDArray[np.float16]:
    """The values of :func:`normal` rounded to nearest even, as float16[count]."""
    return _lookup(seed, stream, count, start, "float16")


def outlier_gain(seed: int, stream: str, channels: int) -> npt.NDArray[np.float32]:
    """Gain per channel: 32 for about one channel in 64, else 1.

    Models have few activation channels that are tens of times larger than the rest, the same ones
    for every token (Dettmers et al., "LLM.int8()", 2022, section 4).

    Returns:
        float32[channels], to be multiplied with the values of a token.
    """
    rare = _hashes(seed, stream + ":outlier_gain", channels) >> np.uint64(_OUTLIER_SHIFT) == 0
    gain: npt.NDArray[np.float32] = np.where(rare, np.float32(OUTLIER_GAIN), np.float32(1))
    return gain


def uniform_int(seed: int, stream: str, count: int, bound: int) -> npt.NDArray[np.int64]:
    """Integers from 0 to bound - 1 as int64[count]; some are likelier by at most bound / 2^32.

    Raises:
        ValueError: bound is not from 1 to 2^32.
    """
    if not 1 <= bound <= 1 << 32:
        raise ValueError(f"bound {bound} is not from 1 to 2^32")
    high = _hashes(seed, stream + ":uniform_int", count) >> np.uint64(32)
    values: npt.NDArray[np.int64] = ((high * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)
    return values


def permutation(seed: int, stream: str, n: int) -> npt.NDArray[np.int64]:
    """The integers 0 to n - 1 as int64[n] in the order of their hashes (ties: smaller first)."""
    hashes = _hashes(seed, stream + ":permutation", n)
    order: npt.NDArray[np.int64] = np.argsort(hashes, kind="stable").astype(np.int64)
    return order
