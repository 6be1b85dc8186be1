"""How two evaluations of the same tokens differ: bits, ULPs, and errors that mean something.

Pure numpy. A token's output is one row; two rows are equal if their bytes are.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

# A quiet NaN no arithmetic of ggml produces; outputs are filled with it before each run.
UNWRITTEN = 0x7FFADBAD

_SIGN = np.uint32(0x8000_0000)
_INFINITY = np.uint32(0x7F80_0000)
_HALF_ULP_OF_ONE = 2.0**-24  # unit roundoff of binary32


@dataclass(frozen=True)
class Difference:
    """What differs between serial and wide outputs of the same tokens.

    Attributes:
        columns: tokens whose outputs differ in at least one bit, ascending.
        elements: elements compared.
        elements_differing: elements whose bits differ; the counts below are among these.
        max_ulp: largest distance in units in the last place over finite pairs.
        ulp_histogram: finite pairs by distance: "1", "2", "3-4", "5-8", ...
        signed_zero: pairs of +0 and -0, at distance 0 and in no bucket.
        infinite: pairs with an infinity and no NaN.
        nan: pairs with at least one NaN.
        max_abs: largest absolute difference over finite pairs.
    """

    columns: list[int] = field(default_factory=list)
    elements: int = 0
    elements_differing: int = 0
    max_ulp: int = 0
    ulp_histogram: dict[str, int] = field(default_factory=dict)
    signed_zero: int = 0
    infinite: int = 0
    nan: int = 0
    max_abs: float = 0.0


def hash_token(token: npt.NDArray[np.float32]) -> str:
    """BLAKE2b-64 of the bytes of one token's output, as 16 hex digits."""
    return hashlib.blake2b(np.ascontiguousarray(token).data, digest_size=8).hexdigest()


def compare(serial: npt.NDArray[np.float32], wide: npt.NDArray[np.float32]) -> Difference:
    """Compare the outputs of the same tokens from two evaluations.

    Args:
        serial: float32[T, E], token t evaluated alone.
        wide: float32[T, E], the tokens evaluated together.

    Raises:
        ValueError: shapes or dtypes are not the same float32[T, E].
    """
    if serial.shape != wide.shape:
        raise ValueError(f"cannot compare shapes {serial.shape} and {wide.shape}")
    if serial.dtype != np.float32 or wide.dtype != np.float32:
        raise ValueError(f"cannot compare {serial.dtype} with {wide.dtype}: both must be float32")
    a, b = _bits(serial), _bits(wide)
    unequal = a != b
    columns = np.flatnonzero(unequal.any(axis=1))
    if not columns.size:
        return Difference(elements=a.size)
    return _measure(columns.tolist(), a.size, a[unequal], b[unequal])


def merge(differences: Iterable[Difference]) -> Difference:
    """One Difference for several comparisons (seeds): counts added, maxima and columns joined."""
    parts = list(differences)
    histogram: dict[str, int] = {}
    for part in parts:
        for bucket, count in part.ulp_histogram.items():
            histogram[bucket] = histogram.get(bucket, 0) + count
    return Difference(
        columns=sorted({c for part in parts for c in part.columns}),
        elements=sum(part.elements for part in parts),
        elements_differing=sum(part.elements_differing for part in parts),
        max_ulp=max((part.max_ulp for part in parts), default=0),
        ulp_histogram=dict(sorted(histogram.items(), key=lambda item: _bucket_start(item[0]))),
        signed_zero=sum(part.signed_zero for part in parts),
        infinite=sum(part.infinite for part in parts),
        nan=sum(part.nan for part in parts),
        max_abs=max((part.max_abs for part in parts), default=0.0),
    )


def unwritten(out: npt.NDArray[np.float32]) -> int:
    """How many elements still hold the bits of :data:`UNWRITTEN`."""
    return int(np.count_nonzero(_bits(out) == np.uint32(UNWRITTEN)))


def sum_sq_error(
    out: npt.NDArray[np.float32], reference: npt.NDArray[np.float64]
) -> tuple[float, float]:
    """Numerator and denominator of the NMSE; sums of parts may be added before :func:`nmse`.

    Args:
        out: float32 outputs.
        reference: float64 of the same shape.

    Returns:
        (sum of (out - reference)^2, sum of reference^2).
    """
    flat = reference.ravel()
    with np.errstate(invalid="ignore"):
        error = np.subtract(out.ravel(), flat, dtype=np.float64)
    return float(error @ error), float(flat @ flat)


def nmse(error: float, reference: float) -> float:
    """Normalized mean square error, as upstream's test-backend-ops has it; 0/0 is 0."""
    if reference == 0:
        return 0.0 if error == 0 else math.inf
    return error / reference


def max_err_scaled(
    a: npt.NDArray[np.float32],
    b: npt.NDArray[np.float32],
    magnitude: npt.NDArray[np.float64],
) -> float:
    """Largest |a - b| / (2^-24 * magnitude) over finite pairs; near 1 for reordered sums.

    Args:
        a: float32 outputs of one path.
        b: float32 outputs of the other, same shape.
        magnitude: float64 of the same shape, the sum of absolute terms behind each element
            (a product: sum |w x|; attention: sum p |v|).

    Returns:
        0 where a difference of 0 meets a magnitude of 0, inf where another difference does.
    """
    with np.errstate(invalid="ignore"):
        distance = np.abs(np.subtract(a, b, dtype=np.float64))
    differing = np.isfinite(distance) & (distance > 0)
    if not differing.any():
        return 0.0
    with np.errstate(divide="ignore"):
        scaled = distance[differing] / (_HALF_ULP_OF_ONE * magnitude[differing])
    return float(scaled.max())


def _bits(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(values).view(np.uint32)


def _ordered(bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Position of finite floats on the number line in steps of one ULP; both zeros are 0."""
    magnitude = (bits & ~_SIGN).astype(np.int64)
    position: npt.NDArray[np.int64] = np.where(bits & _SIGN, -magnitude, magnitude)
    return position


def _measure(
    columns: list[int], elements: int, a: npt.NDArray[np.uint32], b: npt.NDArray[np.uint32]
) -> Difference:
    """Difference from the bits of the pairs that are not equal."""
    larger = np.maximum(a & ~_SIGN, b & ~_SIGN)
    finite = larger < _INFINITY
    nan = int(np.count_nonzero(larger > _INFINITY))
    differing = a.size
    infinite = differing - nan - int(np.count_nonzero(finite))
    if infinite or nan:
        a, b = a[finite], b[finite]
    ulp = np.abs(_ordered(a) - _ordered(b))
    distance = np.subtract(a.view(np.float32), b.view(np.float32), dtype=np.float64)
    return Difference(
        columns=columns,
        elements=elements,
        elements_differing=differing,
        max_ulp=int(ulp.max(initial=0)),
        ulp_histogram=_histogram(ulp[ulp > 0]),
        signed_zero=int(np.count_nonzero(ulp == 0)),
        infinite=infinite,
        nan=nan,
        max_abs=float(np.abs(distance).max(initial=0.0)),
    )


def _histogram(ulp: npt.NDArray[np.int64]) -> dict[str, int]:
    """Counts of positive distances in the buckets 1, 2, 3-4, 5-8, ... (empty ones left out)."""
    # frexp's exponent of n - 1 is its bit length, exact below 2^53: 2^(e-1) < n <= 2^e.
    counts = np.bincount(np.frexp((ulp - 1).astype(np.float64))[1])
    return {_bucket(e): int(count) for e, count in enumerate(counts.tolist()) if count}


def _bucket(exponent: int) -> str:
    if exponent <= 1:
        return str(exponent + 1)
    return f"{(1 << (exponent - 1)) + 1}-{1 << exponent}"


def _bucket_start(bucket: str) -> int:
    return int(bucket.partition("-")[0])
