"""Kinds of nodes, and the op probe's case of each."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggmlprobe.errors import UsageError
from ggmlprobe.ggml.library import Library
from ggmlprobe.model.graph import Seen, Source
from ggmlprobe.model.ops import home, kinds, op_of, real_twin
from ggmlprobe.ops.flash_attn import FlashAttn
from ggmlprobe.ops.mul_mat import MulMat
from ggmlprobe.ops.mul_mat_id import MulMatId
from ggmlprobe.pool import PoolStore, pool_rows
from ggmlprobe.weights_file import Weight

gguf = pytest.importorskip("gguf")


def source(name: str, type_name: str, *ne: int, nb: tuple[int, ...] | None = None) -> Source:
    """What a node reads."""
    sizes = (*ne, 1, 1, 1)[:4]
    steps = nb or (4, 4 * sizes[0], 4 * sizes[0] * sizes[1], 4 * sizes[0] * sizes[1] * sizes[2])
    return Source(None, name, type_name, sizes, steps, "CPU", "")


def node(kind: str, *sources: Source, params: bytes = bytes(64), **more: Any) -> Seen:
    """A node of one token."""
    made = Seen("x-0", kind, kind, "f32", (64, 1, 1, 1), (4, 256, 256, 256), "CPU", params, "",
                sources)  # fmt: skip
    return replace(made, **more)


UP = node("MUL_MAT", source("blk.0.up", "q4_K", 512, 64), source("x", "f32", 512))


def test_a_product_with_a_weight() -> None:
    assert op_of(UP) == ("mul_mat", MulMat("q4_K", "f32", 64, 512))


def test_the_products_of_attention() -> None:
    # the K cache, [64, 256, 3] with heads inside cells; prec F32
    k = source("k", "f16", 64, 256, 3, nb=(2, 384, 128, 98304))
    q = source("q", "f32", 64, 1, 9, nb=(4, 2304, 256, 2304))
    kq = node("MUL_MAT", k, q, params=struct.pack("<i", 10) + bytes(60))
    assert op_of(kq) == (
        "mul_mat",
        MulMat("f16", "f32", 256, 64, (3, 1), (3, 1), (0, 2, 1, 3), prec="f32"),
    )
    # V transposed: rows of the cache are channels
    v = source("v", "f16", 256, 64, 3, nb=(2, 1024, 65536, 196608))
    kqv = node("MUL_MAT", v, source("p", "f32", 256, 1, 9))
    assert op_of(kqv) == ("mul_mat", MulMat("f16", "f32", 64, 256, (3, 1), (3, 1)))


@pytest.mark.parametrize("slots", [1, 4])
def test_a_product_with_experts(slots: int) -> None:
    made = op_of(
        node("MUL_MAT_ID", source("e", "iq3_s", 512, 96, 32), source("x", "f32", 512, slots),
             source("ids", "i32", 4))
    )  # fmt: skip
    assert made == (
        "mul_mat_id",
        MulMatId("iq3_s", "f32", n_mats=32, n_used=4, b=slots == 1, m=96, k=512),
    )


@pytest.mark.parametrize("sinks", [False, True])
def test_flash_attention(sinks: bool) -> None:
    params = struct.pack("<3fi", 0.125, 0.0, 50.0, 10) + bytes(48)
    more = [source("sinks", "f32", 32)] if sinks else []
    made = op_of(
        node("FLASH_ATTN_EXT", source("q", "f32", 128, 1, 32), source("k", "q8_0", 128, 768, 8),
             source("v", "q8_0", 64, 768, 8), source("m", "f16", 768), *more, params=params)
    )  # fmt: skip
    assert made == (
        "flash_attn",
        FlashAttn(hsk=128, hsv=64, nh=8, nr2=4, cells=768, type_K="q8_0", type_V="q8_0",
                  logit_softcap=50.0, sinks=sinks),
    )  # fmt: skip


def test_other_ops_have_no_case() -> None:
    assert op_of(node("RMS_NORM", source("x", "f32", 64))) is None


def test_nodes_of_one_op_type_and_shape_are_one_kind() -> None:
    other = replace(UP, sources=(source("blk.1.up", "q4_K", 512, 64), UP.sources[1]))
    wider = replace(UP, sources=(source("blk.1.w", "q4_K", 512, 65), UP.sources[1]))
    typed = replace(UP, sources=(source("blk.1.t", "q6_K", 512, 64), UP.sources[1]))
    view = node("VIEW", source("x", "f32", 64))
    weights = {"blk.0.up": Weight("blk.0.up", "q4_K", (512, 64), np.zeros((64, 288), np.uint8))}
    made = kinds([UP, view, other, wider, typed], weights)
    assert [(kind.type, kind.count, kind.weight) for kind in made] == [
        ("q4_K", 2, "blk.0.up"), ("q4_K", 1, None), ("q6_K", 1, None),
    ]  # fmt: skip
    twin = real_twin(made[0], "m.gguf")
    assert isinstance(twin, MulMat)
    assert twin.source == "m.gguf#blk.0.up"
    assert real_twin(made[1], "m.gguf") is None


def test_weights_are_probed_where_they_lie() -> None:
    assert home("CPU_REPACK", ["CPU_REPACK", "AMX"]) == "CPU_REPACK"
    assert home("CPU_Mapped", ["CPU_REPACK"]) is None
    assert home("CUDA0", ["CPU_REPACK"]) is None


def test_a_pool_of_real_rows_is_the_file(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "made.gguf"
    rows = 2 * pool_rows(4096)
    values = np.arange(rows, dtype=np.float32)[:, None].repeat(4096, 1)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("all", values[:31])
    writer.add_tensor("many", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    pools = PoolStore(library, None, 1)
    whole = pools.get("f32", 4096, 31, 1, f"{path}#all")
    assert np.array_equal(whole.values, values[:31])
    spread = pools.get("f32", 4096, rows, 1, f"{path}#many").values[:, 0]
    assert len(spread) == pool_rows(4096)
    assert spread[0] == 0
    assert spread[-1] == rows - 1
    assert set(np.diff(spread)) <= {1, 2, 3}
    with pytest.raises(UsageError, match="all is f32"):
        pools.get("f16", 4096, 31, 1, f"{path}#all")
