"""A header of another version is refused, or lays the fields out as the library does."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import cffi
import pytest

from ggmlprobe.errors import HeaderRefused
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.llama.library import Llama, find_library, functions
from ggmlprobe.ggml.llama.structs import STRUCTS, Field, Header, parse

PROVEN = tuple(name for name in STRUCTS if name != "llama_chat_message")
TYPES = ("bool", "int", "float", "size_t", "void *")


@pytest.fixture(scope="module")
def header(llama_h: Path) -> Header:
    return parse(llama_h.read_text())


@pytest.fixture(scope="module")
def libllama(library: Library) -> Path:
    return find_library(library.found)


def offsets(header: Header, struct: str) -> dict[str, int]:
    """Where fields lie, and how long the struct is."""
    ffi = cffi.FFI()
    ffi.cdef(header.cdef())
    type_ = f"struct {struct}"
    found = {f.name: ffi.offsetof(type_, f.name) for f in header.structs[struct]}
    return found | {"": ffi.sizeof(type_)}


def refused(libllama: Path, edited: Header) -> bool:
    try:
        functions(libllama, edited)
    except HeaderRefused:
        return True
    return False


def with_fields(header: Header, struct: str, fields: tuple[Field, ...]) -> Header:
    return replace(header, structs={**header.structs, struct: fields})


def test_its_own_header(libllama: Path, header: Header) -> None:
    ffi, c = functions(libllama, header)
    assert c.llama_context_default_params().n_batch == 2048
    assert ffi.sizeof("struct llama_batch") == 56


@pytest.mark.parametrize("struct", PROVEN)
@pytest.mark.parametrize("type_", TYPES)
def test_a_field_more(libllama: Path, header: Header, struct: str, type_: str) -> None:
    fields, true = header.structs[struct], offsets(header, struct)
    moved = 0
    for at in range(len(fields) + 1):
        more = Field("not_there", type_)
        edited = with_fields(header, struct, (*fields[:at], more, *fields[at:]))
        same = true.items() <= offsets(edited, struct).items()
        # one that lies where the library has padding moves nothing
        assert refused(libllama, edited) or same, f"before {fields[at].name}"
        moved += not same
    assert moved > 3


@pytest.mark.parametrize("struct", PROVEN)
def test_a_field_less(libllama: Path, header: Header, struct: str) -> None:
    fields, true = header.structs[struct], offsets(header, struct)
    for at, field in enumerate(fields):
        edited = with_fields(header, struct, (*fields[:at], *fields[at + 1 :]))
        left = {name: offset for name, offset in true.items() if name != field.name}
        same = left.items() <= offsets(edited, struct).items()
        assert refused(libllama, edited) or same, f"without {field.name}"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("n_ctx", "n_batch"), ("n_ubatch", "n_seq_max"), ("flash_attn_type", "rope_freq_base"),
        ("cb_eval", "type_k"), ("swa_full", "kv_unified"), ("embeddings", "offload_kqv"),
    ],
)  # fmt: skip
def test_fields_that_changed_places(
    libllama: Path, header: Header, first: str, second: str
) -> None:
    fields = list(header.structs["llama_context_params"])
    names = [field.name for field in fields]
    i, j = names.index(first), names.index(second)
    fields[i], fields[j] = fields[j], fields[i]
    assert refused(libllama, with_fields(header, "llama_context_params", tuple(fields)))


def test_an_edited_copy_of_the_file(library: Library, llama_h: Path, tmp_path: Path) -> None:
    text = llama_h.read_text()
    edited = re.sub(r"(struct llama_context_params \{[^}]*?n_ubatch;)", r"\1 int32_t new;", text)
    assert edited != text
    (tmp_path / "llama.h").write_text(edited)
    with pytest.raises(HeaderRefused, match=r"not of this .*--llama-h") as error:
        Llama.load(library, tmp_path / "llama.h")
    assert "\n" not in str(error.value)
