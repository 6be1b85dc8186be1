"""Where libllama and its header are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from ggmlprobe.errors import HeaderRefused, LibraryBroken
from ggmlprobe.ggml.find import Found
from ggmlprobe.ggml.llama.library import ENVIRONMENT, Llama, find_header, find_library


def found(folder: Path, *names: str) -> Found:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return Found("--lib", folder, (folder / names[0],))


@pytest.mark.parametrize(
    ("names", "right"),
    [
        (["libllama.so", "libllama.so.0", "libllama-common.so"], "libllama.so"),
        (["libllama.so.0.5.0", "libllama.so.0"], "libllama.so.0"),
        (["libllama.v0.5.0.so", "llama-addon.node"], "libllama.v0.5.0.so"),
        (["libllama.b6673.so"], "libllama.b6673.so"),
        (["libllama-0a1b2c3d.so.1"], "libllama-0a1b2c3d.so.1"),
        (["libllama.dylib"], "libllama.dylib"),
        (["llama.dll"], "llama.dll"),
    ],
)
def test_names_of_libllama(tmp_path: Path, names: list[str], right: str) -> None:
    library = found(tmp_path, "libggml-base.so", "libggml.so", *names)
    assert find_library(library).name == right


def test_one_file_that_holds_all(tmp_path: Path) -> None:
    assert find_library(found(tmp_path, "index.node")).name == "index.node"


def test_no_libllama(tmp_path: Path) -> None:
    library = found(tmp_path, "libggml-base.so", "libggml.so", "libllama-common.so", "libllama.a")
    two = Found(library.origin, tmp_path, (tmp_path / "libggml-base.so", tmp_path / "libggml.so"))
    with pytest.raises(LibraryBroken, match="no libllama beside libggml"):
        find_library(two)


@pytest.mark.parametrize("below", ["build/bin", "build/bin/Release", "lib", ""])
def test_the_header_of_the_checkout_around_it(tmp_path: Path, below: str) -> None:
    header = tmp_path / "include" / "llama.h"
    header.parent.mkdir()
    header.touch()
    assert find_header(found(tmp_path / below, "libllama.so"), None, {}) == header.resolve()


def test_the_user_says_which(tmp_path: Path) -> None:
    library = found(tmp_path / "lib", "libllama.so")
    mine, other = tmp_path / "mine.h", tmp_path / "other.h"
    mine.touch()
    other.touch()
    assert find_header(library, None, {ENVIRONMENT: str(other)}) == other
    assert find_header(library, mine, {ENVIRONMENT: str(other)}) == mine
    for given, environ in ((tmp_path / "no.h", {}), (None, {ENVIRONMENT: "no.h"})):
        with pytest.raises(HeaderRefused, match=r"no llama.h at .*no.h"):
            find_header(library, given, environ)


def test_no_header(tmp_path: Path) -> None:
    with pytest.raises(HeaderRefused, match="--llama-h"):
        find_header(found(tmp_path / "a" / "b" / "c" / "d", "libllama.so"), None, {})


def test_it_is_loaded_once(llama: Llama, llama_h: Path) -> None:
    assert Llama.load(llama.library, llama_h) is llama


def test_enum(llama: Llama) -> None:
    assert llama.enum("llama_ftype", "LLAMA_FTYPE_MOSTLY_Q8_0") == 7
    with pytest.raises(HeaderRefused, match="LLAMA_FTYPE_MOSTLY_Q9"):
        llama.enum("llama_ftype", "LLAMA_FTYPE_MOSTLY_Q9")
