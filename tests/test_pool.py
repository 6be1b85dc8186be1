"""Weight pools: a prime count, laid out over every row, and a cache that is never wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggmlprobe import inputs, pool
from ggmlprobe.ggml import quants
from ggmlprobe.ggml.library import Library
from ggmlprobe.pool import Pool, PoolStore, load_checked, pool_rows, store_checked

K, ROWS, SEED = 256, 61, 5


def is_prime(n: int) -> bool:
    return n > 1 and all(n % divisor for divisor in range(2, n))


@given(st.integers(1, 300_000))
@settings(max_examples=60)
def test_a_pool_is_the_largest_prime_of_about_a_million_weights(k: int) -> None:
    rows, limit = pool_rows(k), max(61, 2**20 // k)
    assert rows <= limit
    if limit < 10_000:
        assert [n for n in range(rows, limit + 1) if is_prime(n)] == [rows]


def test_rows_at_usual_sizes() -> None:
    assert [pool_rows(k) for k in (2048, 4096, 5120, 14336, 17408)] == [509, 251, 199, 73, 61]


def small_pool(rows: int = 7, size: int = 4) -> Pool:
    data = np.arange(rows * size, dtype=np.uint8).reshape(rows, size)
    return Pool(data, np.zeros((rows, 1), np.float32))


@pytest.mark.parametrize("chunk", [1, 3, 5, 100])
@pytest.mark.parametrize("tail", [0, 3])
def test_layout_covers_every_row_in_order(chunk: int, tail: int) -> None:
    made = small_pool()
    index = np.arange(23)
    parts = list(made.layout(index, 4 + tail, chunk))
    whole = np.concatenate(parts)
    assert all(len(part) <= chunk for part in parts)
    assert whole.shape == (23, 4 + tail)
    for row in range(23):
        assert whole[row, :4].tolist() == made.data[row % 7].tolist()
        assert not whole[row, 4:].any()


def test_layout_follows_the_order_of_the_index() -> None:
    made = small_pool()
    (part,) = made.layout(np.array([8, 0, 6]), 4)
    assert part.tolist() == made.data[[1, 0, 6]].tolist()


def test_every_pool_row_meets_every_lane() -> None:
    """What the prime is for: in tiles of 2 to 64 rows each pool row comes to sit in each lane."""
    rows = 199
    row = np.arange(17408)
    for tile in (2, 4, 8, 16, 32, 64):
        assert len(set(zip((row % rows).tolist(), (row % tile).tolist(), strict=True))) == (
            rows * tile
        )


def store(library: Library, directory: Path | None) -> PoolStore:
    return PoolStore(library, directory, threads=1)


def test_a_pool_is_the_quantized_inputs(library: Library) -> None:
    made = store(library, None).get("q4_0", K, ROWS, SEED)
    values = inputs.normal(SEED, "weights", ROWS * K).reshape(ROWS, K)
    assert made.data.shape == (ROWS, library.row_size("q4_0", K))
    assert made.data.tobytes() == quants.quantize(library, "q4_0", values, 1).tobytes()
    assert made.values.tobytes() == quants.dequantize(library, "q4_0", made.data, K).tobytes()
    assert len({row.tobytes() for row in made.data}) == ROWS
    assert 0 < np.abs(made.values - values).mean() < 0.2


def test_a_pool_is_no_larger_than_its_limit_nor_than_the_tensor(library: Library) -> None:
    made = store(library, None)
    assert len(made.get("f16", 32768, 5000, SEED).data) == pool_rows(32768) == 61
    assert len(made.get("f16", 32768, 3, SEED).data) == 3


@pytest.fixture
def quantized(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of types that were quantized."""
    calls: list[str] = []
    real = quants.quantize

    def counted(library: Library, type_name: str, rows: np.ndarray, threads: int) -> np.ndarray:
        calls.append(type_name)
        return real(library, type_name, rows, threads)

    monkeypatch.setattr(pool.quants, "quantize", counted)
    return calls


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def test_a_pool_is_kept_in_memory_and_the_oldest_goes_first(
    library: Library, quantized: list[str]
) -> None:
    made = store(library, None)
    for seed in (1, 2, 3, 4, 4, 1):
        made.get("q4_0", K, 3, seed)
    assert len(quantized) == 4
    made.get("q4_0", K, 3, 5)
    made.get("q4_0", K, 3, 2)
    assert len(quantized) == 5
    made.get("q4_0", K, 3, 1)
    assert len(quantized) == 6


def test_a_pool_is_read_back_from_disk(
    library: Library, quantized: list[str], tmp_path: Path
) -> None:
    first = store(library, tmp_path).get("q4_0", K, ROWS, SEED)
    second = store(library, tmp_path).get("q4_0", K, ROWS, SEED)
    assert quantized == ["q4_0"]
    assert second.data.tobytes() == first.data.tobytes()
    assert second.values.tobytes() == first.values.tobytes()
    assert len(files(tmp_path)) == 1


def test_plain_types_are_not_kept_on_disk(library: Library, tmp_path: Path) -> None:
    store(library, tmp_path).get("f16", K, 3, SEED)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    "other", [("q8_0", K, 3, 1), ("q4_0", 2 * K, 3, 1), ("q4_0", K, 5, 1), ("q4_0", K, 3, 2)]
)
def test_type_length_rows_and_seed_have_a_file_each(
    library: Library, quantized: list[str], tmp_path: Path, other: tuple[str, int, int, int]
) -> None:
    made = store(library, tmp_path)
    made.get("q4_0", K, 3, 1)
    made.get(*other)
    assert quantized == ["q4_0", other[0]]
    assert len(files(tmp_path)) == 2


def test_an_identity_is_part_of_the_key(
    library: Library, quantized: list[str], tmp_path: Path
) -> None:
    store(library, tmp_path).get("q4_0", K, 3, SEED)
    rebuilt = store(library, tmp_path)
    rebuilt.identity = "0" * 16
    rebuilt.get("q4_0", K, 3, SEED)
    assert quantized == ["q4_0"] * 2


@pytest.mark.parametrize("damage", ["torn", "longer", "flipped", "digest", "empty"])
def test_a_damaged_file_is_made_again(
    library: Library, quantized: list[str], tmp_path: Path, damage: str
) -> None:
    first = store(library, tmp_path).get("q4_0", K, ROWS, SEED)
    (path,) = files(tmp_path)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[0 if damage == "digest" else -7] ^= 4
    path.write_bytes({
        "torn": whole[: len(whole) // 2], "longer": whole + b"\0", "flipped": bytes(flipped),
        "digest": bytes(flipped), "empty": b"",
    }[damage])  # fmt: skip
    second = store(library, tmp_path).get("q4_0", K, ROWS, SEED)
    assert second.data.tobytes() == first.data.tobytes()
    assert len(quantized) == 2
    assert path.read_bytes() == whole


def test_a_file_is_as_long_as_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    store_checked(path, b"12345")
    assert load_checked(path, 5) == b"12345"
    assert load_checked(path, 4) is None
    assert load_checked(tmp_path / "none", 5) is None


def test_a_folder_that_cannot_be_written_costs_only_the_cache(
    library: Library, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    made = store(library, blocked).get("q4_0", K, 3, SEED)
    assert made.data.tobytes() == store(library, None).get("q4_0", K, 3, SEED).data.tobytes()
    assert blocked.read_text() == "no folder"


def test_a_full_disk_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fails)
    store_checked(tmp_path / "pool", b"12345")
    assert files(tmp_path) == []


WRITER = """
import sys
from pathlib import Path
from ggmlprobe.pool import load_checked, store_checked
path = Path(sys.argv[1])
data = bytes(range(256)) * 4096
print("ready", flush=True)
sys.stdin.readline()
for _ in range(40):
    store_checked(path, data)
    if load_checked(path, len(data)) != data:
        sys.exit("a torn file was read")
"""


def test_two_processes_that_write_at_once_never_read_a_torn_file(tmp_path: Path) -> None:
    path = tmp_path / "pools" / "one"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    outcomes = []
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        outcomes.append((writer.returncode, errors))
    assert outcomes == [(0, "")] * 2
    assert files(tmp_path) == [path]
