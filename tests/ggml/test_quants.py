"""Quantizing and back, against the block formats decoded here by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ggmlprobe.errors import UnknownType, Unsupported, UsageError
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.quants import can_quantize, dequantize, quantize


def rows(count: int = 7, k: int = 512) -> np.ndarray:
    return np.random.default_rng(3).standard_normal((count, k), dtype=np.float32)


@pytest.mark.parametrize("type_name", ["q4_0", "q8_0", "q4_K", "iq2_xxs", "f16"])
def test_bytes_do_not_depend_on_threads(library: Library, type_name: str) -> None:
    # iq2_xxs needs an importance matrix
    one = quantize(library, type_name, rows(), 1)
    assert one.shape == (7, library.row_size(type_name, 512))
    for threads in (2, 5, 64):
        assert (quantize(library, type_name, rows(), threads) == one).all()
    assert (quantize(library, type_name, rows()[3:4], 2) == one[3:4]).all()


def test_q8_0_as_the_format_says(library: Library) -> None:
    data = quantize(library, "q8_0", rows())
    blocks = data.reshape(7, 16, 34)
    scale = np.ascontiguousarray(blocks[:, :, :2]).view(np.float16).astype(np.float32)
    want = (scale * blocks[:, :, 2:].view(np.int8)).reshape(7, 512)
    assert (dequantize(library, "q8_0", data, 512) == want).all()
    assert np.abs(want - rows()).max() <= scale.max()


def test_q4_0_as_the_format_says(library: Library) -> None:
    data = quantize(library, "q4_0", rows())
    blocks = data.reshape(7, 16, 18)
    scale = np.ascontiguousarray(blocks[:, :, :2]).view(np.float16).astype(np.float32)
    nibbles = np.concatenate([blocks[:, :, 2:] & 15, blocks[:, :, 2:] >> 4], axis=2).astype(np.int8)
    want = (scale * (nibbles - 8)).reshape(7, 512)
    assert (dequantize(library, "q4_0", data, 512) == want).all()


def test_plain_types_are_exact(library: Library) -> None:
    values = rows()
    assert (dequantize(library, "f32", quantize(library, "f32", values), 512) == values).all()
    half = dequantize(library, "f16", quantize(library, "f16", values), 512)
    assert (half == values.astype(np.float16).astype(np.float32)).all()
    bits = values.view(np.uint32)
    # round to nearest even at bit 16
    nearest = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32)
    brain = dequantize(library, "bf16", quantize(library, "bf16", values), 512)
    assert (brain == nearest.view(np.float32)).all()


def test_types_it_only_holds_are_refused(library: Library) -> None:
    for type_name in ("q8_1", "q8_K", "i32"):
        assert not can_quantize(library, type_name)
        with pytest.raises(Unsupported, match=f"does not quantize to {type_name}"):
            quantize(library, type_name, rows())


def test_every_quantized_type_is_covered(library: Library) -> None:
    quantized = {name for name, info in library.types.items() if info.quantized}
    assert {name for name in quantized if not can_quantize(library, name)} == {"q8_1", "q8_K"}


def test_bad_input(library: Library) -> None:
    with pytest.raises(UsageError, match="block size 256"):
        quantize(library, "q4_K", rows(k=300))
    with pytest.raises(UnknownType):
        quantize(library, "q9_Z", rows())
    for wrong in (rows().astype(np.float64), rows()[0], rows()[:, ::2]):
        with pytest.raises(UsageError, match="float32 matrix"):
            quantize(library, "q8_0", wrong)
    with pytest.raises(UsageError, match=r"uint8 \[r, 544\]"):
        dequantize(library, "q8_0", np.zeros((2, 100), np.uint8), 512)


def test_no_rows(library: Library) -> None:
    assert quantize(library, "q8_0", rows(0), 2).shape == (0, 544)
