"""Activations of a product, and its float64 truth over the distinct weight rows."""

from __future__ import annotations

import numpy as np

from ggmlprobe import inputs
from ggmlprobe.errors import UsageError
from ggmlprobe.ggml import quants
from ggmlprobe.ops.base import Session
from ggmlprobe.pool import Pool

DISTRIBUTIONS = ("normal", "outliers")


def check_distribution(name: str) -> None:
    """Raise UsageError for a distribution that does not exist."""
    if name not in DISTRIBUTIONS:
        raise UsageError(f"--activations must be one of {', '.join(DISTRIBUTIONS)}, not {name}")


class Activations:
    """Rows of src1 as its type holds them, and as float32.

    Attributes:
        data: uint8 [*shape, row size].
        values: float32 [*shape, k], what the type holds exactly.
    """

    def __init__(
        self, session: Session, type_name: str, shape: tuple[int, ...], k: int, seed: int, dist: str
    ) -> None:
        rows = int(np.prod(shape))
        values = inputs.normal(seed, "activations", rows * k).reshape(rows, k)
        if dist == "outliers":
            values = values * inputs.outlier_gain(seed, "channels", k)
        data = quants.quantize(session.library, type_name, values, 1)
        self.data = data.reshape(*shape, -1)
        exact = quants.dequantize(session.library, type_name, data, k)
        self.values = exact.reshape(*shape, k)

    def products(self, pool: Pool) -> tuple[np.ndarray, np.ndarray]:
        """Float64 products with every pool row, and sum |w x|: [*shape, pool rows] each."""
        weights, x = pool.values.astype(np.float64), self.values.astype(np.float64)
        return x @ weights.T, np.abs(x) @ np.abs(weights).T
