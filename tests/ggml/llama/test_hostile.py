"""Truncated, corrupt and hostile files: one line each, and the parent goes on."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ggmlprobe.errors import ModelBroken
from ggmlprobe.worker.model_client import ask
from ggmlprobe.worker.protocol import ModelRequest, ModelSpec, Spec
from ggmlprobe.worker.supervisor import Worker

# sizes of GGUF's scalar value types; 8 is a string, 9 an array
SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9
N_TENSORS, N_KV = 8, 16
HUGE = (2**63 - 1, 2**64 - 1, 2**32, 10**6)


@dataclass
class Places:
    """Where things lie in a GGUF's header, as byte offsets.

    Attributes:
        values: the value of each key. lengths: of every string outside arrays, and of arrays.
        tensors: name to (number of dimensions, type, data offset).
        end: one past the header.
    """

    data: bytes
    values: dict[str, int] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)
    tensors: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    end: int = 24

    def take(self, kind: str) -> int:
        (value,) = struct.unpack_from(f"<{kind}", self.data, self.end)
        self.end += struct.calcsize(f"<{kind}")
        return int(value)

    def string(self, keep: bool = True) -> str:
        if keep:
            self.lengths.append(self.end)
        size = self.take("Q")
        self.end += size
        return self.data[self.end - size : self.end].decode("utf-8", "replace")

    def value(self, kind: int) -> None:
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            of, at = self.take("I"), self.end
            self.lengths.append(at)
            for _ in range(self.take("Q")):
                if of == STRING:
                    self.string(keep=False)
                else:
                    self.end += SCALARS[of]
        else:
            self.end += SCALARS[kind]


def places(data: bytes) -> Places:
    """Read a header."""
    found = Places(data)
    n_tensors, n_kv = struct.unpack_from("<QQ", data, N_TENSORS)
    for _ in range(n_kv):
        key = found.string()
        kind = found.take("I")
        found.values[key] = found.end
        found.value(kind)
    for _ in range(n_tensors):
        name, at = found.string(), found.end
        n_dims = found.take("I")
        found.end += 8 * n_dims
        found.tensors[name] = (at, found.end, found.end + 4)
        found.end += 12
    return found


class Lab:
    """Files with an edited header and zeros as weights, and a child that loads them."""

    def __init__(self, worker: Worker, model: Path, folder: Path) -> None:
        self.worker, self.folder, self.size = worker, folder, model.stat().st_size
        with model.open("rb") as file:
            data = file.read(8_000_000)
        self.places = places(data)
        self.header = data[: self.places.end]
        self.edits = 0

    def verdict(self, header: bytes, size: int | None = None) -> str | None:
        """The one line the file is refused with; None where it loads."""
        # another name each time: the child keeps the models it has loaded
        self.edits += 1
        path = self.folder / f"{self.edits}.gguf"
        with path.open("wb") as file:
            file.write(header)
            file.truncate(self.size if size is None else size)
        request = ModelRequest(
            "describe", ModelSpec(str(path), extra_bufts=False), {"context": True}
        )
        try:
            events = [event["event"] for event in ask(self.worker, request)]
        except ModelBroken as error:
            line = str(error)
        else:
            path.unlink()
            assert "model" in events
            assert events[-1] == "done"
            return None
        path.unlink()
        assert "\n" not in line
        assert line.startswith(str(path))
        assert len(line) < 800
        return line

    def edited(self, at: int, kind: str, value: int | float) -> bytes:
        """The header with a number in it replaced."""
        raw = struct.pack(f"<{kind}", value)
        return self.header[:at] + raw + self.header[at + len(raw) :]


@pytest.fixture(scope="module")
def lab(
    lib_path: str, llama_h: Path, smollm2: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GGMLPROBE_LLAMA_H", str(llama_h))
        worker = Worker(Spec(lib_path), 60.0)
        yield Lab(worker, smollm2, tmp_path_factory.mktemp("hostile"))
        worker.stop()


def test_the_header_itself_loads(lab: Lab) -> None:
    assert lab.verdict(lab.header) is None


@pytest.mark.parametrize("share", [0, 4e-8, 1e-7, 1e-3, 0.01, 0.02, 0.3, 0.999999])
def test_truncated(lab: Lab, share: float) -> None:
    size = int(lab.size * share)
    assert lab.verdict(lab.header[:size], size)


@pytest.mark.parametrize("at", [N_TENSORS, N_KV])
@pytest.mark.parametrize("value", [*HUGE, 0, 1])
def test_counts(lab: Lab, at: int, value: int) -> None:
    assert lab.verdict(lab.edited(at, "Q", value))


@pytest.mark.parametrize("version", [0, 1, 4, 2**31, 3 << 24])
def test_versions(lab: Lab, version: int) -> None:
    assert lab.verdict(lab.edited(4, "I", version))


@pytest.mark.parametrize("value", HUGE[:3])
def test_lengths(lab: Lab, value: int) -> None:
    lengths = lab.places.lengths
    for at in (lengths[0], lengths[1], lengths[20], lengths[40], lengths[-1]):
        assert lab.verdict(lab.edited(at, "Q", value))


def test_tensors(lab: Lab) -> None:
    names = list(lab.places.tensors)
    dims, type_, offset = lab.places.tensors[names[3]]
    first = struct.unpack_from("<Q", lab.header, lab.places.tensors[names[1]][2])[0]
    edits = [
        (offset, "Q", first), (offset, "Q", 7), (offset, "Q", 2**63), (offset, "Q", 2**64 - 32),
        (dims, "I", 0), (dims, "I", 5), (dims, "I", 2**31), (dims + 4, "Q", 0),
        (dims + 4, "Q", 2**63), (dims + 4, "Q", 2**62 + 1), (dims + 4, "Q", 33),
        (type_, "I", 1000), (type_, "I", 4), (type_, "I", 2**31),
    ]  # fmt: skip
    for at, kind, value in edits:
        assert lab.verdict(lab.edited(at, kind, value)), (at - dims, kind, value)


@pytest.mark.parametrize("key", ["block_count", "embedding_length", "attention.head_count"])
@pytest.mark.parametrize("value", [0, 1, 7, 2**31 - 1, 2**32 - 1])
def test_sizes_of_the_network(lab: Lab, key: str, value: int) -> None:
    # a network of one block, or with one head, can be made of these tensors
    refused = lab.verdict(lab.edited(lab.places.values[f"llama.{key}"], "I", value))
    assert refused or value == 1


def test_random_bytes(lab: Lab) -> None:
    """Edits anywhere outside the vocabulary: loaded or refused, nothing else."""
    dice = random.Random(4)
    spots = [*lab.places.values.values(), *lab.places.lengths]
    spots += [at for each in lab.places.tensors.values() for at in each]
    refused = 0
    for _ in range(25):
        header = bytearray(lab.header)
        for at in dice.sample(spots, dice.choice([1, 1, 4])):
            header[at + dice.randrange(4)] = dice.choice(
                [0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)]
            )
        refused += lab.verdict(bytes(header)) is not None
    assert refused > 6


def test_the_child_goes_on_after_a_refusal(lab: Lab, smollm2: Path) -> None:
    assert lab.verdict(b"GGUF")
    spec = ModelSpec(str(smollm2), extra_bufts=False)
    events = list(ask(lab.worker, ModelRequest("describe", spec)))
    assert [event["event"] for event in events][-2:] == ["model", "done"]
