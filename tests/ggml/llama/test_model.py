"""What a model says of itself, its tokens, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ggmlprobe.errors import ModelBroken, UnknownDevice, UsageError
from ggmlprobe.ggml.llama.library import Llama
from ggmlprobe.ggml.llama.model import Model, quantize


def test_smollm2(smol: Model) -> None:
    assert smol.meta("general.architecture") == "llama"
    assert smol.meta("no.such.key") is None
    assert "Q4_1" in smol.desc
    assert (smol.n_vocab, smol.n_ctx_train, smol.n_layer, smol.swa) == (49152, 8192, 30, 0)
    assert 90e6 < smol.size_bytes < 98362432
    assert (smol.is_recurrent, smol.is_hybrid) == (False, False)


def test_gemma3(gemma: Model) -> None:
    assert gemma.meta("general.architecture") == "gemma3"
    assert (gemma.n_vocab, gemma.n_layer, gemma.swa) == (262144, 18, 512)


@pytest.mark.parametrize(
    "text", ["Hello, world", "naïve 日本語 \U0001f600", "  two  spaces\n\n", ""]
)
def test_tokens_are_the_text(smol: Model, gemma: Model, text: str) -> None:
    for model in (smol, gemma):
        tokens = model.tokenize(text, add_bos=False)
        assert b"".join(map(model.piece, tokens)) == text.encode()


def test_special_tokens(smol: Model, gemma: Model) -> None:
    assert len(smol.tokenize("<|im_end|>")) == 1
    assert len(smol.tokenize("<|im_end|>", special=False)) > 1
    assert smol.is_eog(smol.tokenize("<|im_end|>")[0])
    assert not smol.is_eog(smol.tokenize("a")[0])
    with_bos, without = gemma.tokenize("a"), gemma.tokenize("a", add_bos=False)
    assert with_bos[1:] == without
    assert gemma.piece(with_bos[0]) == b"<bos>"


def test_a_long_text(smol: Model) -> None:
    assert len(smol.tokenize("word " * 5000)) > 5000


def test_a_token_that_is_not_there(smol: Model) -> None:
    for token in (-1, smol.n_vocab):
        with pytest.raises(UsageError, match="is not in 0"):
            smol.piece(token)


def test_chat(smol: Model, gemma: Model) -> None:
    made = smol.chat("Héllo")
    assert made.endswith("<|im_start|>user\nHéllo<|im_end|>\n<|im_start|>assistant\n")
    long = "word " * 500
    assert smol.chat(long).count("word") == 500
    if gemma.meta("tokenizer.chat_template") is None:
        assert gemma.chat("Hello") == "Hello"


def test_vocab_only(llama: Llama, smollm2: Path) -> None:
    model = Model(llama, smollm2, vocab_only=True)
    assert model.tokenize("Hello") == [19556]
    model.close()
    model.close()


def test_progress(llama: Llama, smollm2: Path) -> None:
    shares: list[float] = []
    Model(llama, smollm2, extra_bufts=False, progress=shares.append).close()
    assert len(shares) > 2
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_devices(llama: Llama, smollm2: Path) -> None:
    for devices in ((), ("CPU",), ("cpu",)):
        Model(llama, smollm2, devices=devices, vocab_only=True).close()
    with pytest.raises(UnknownDevice, match=r"no device GPU7; there are: .*CPU"):
        Model(llama, smollm2, devices=("GPU7",))


def test_a_file_that_is_no_model(llama: Llama, tmp_path: Path) -> None:
    other, empty = tmp_path / "other.gguf", tmp_path / "empty.gguf"
    other.write_bytes(b"PK\x03\x04 and more")
    empty.touch()
    for path in (tmp_path / "none.gguf", tmp_path, other, empty):
        with pytest.raises(ModelBroken, match="give a GGUF file") as error:
            Model(llama, path)
        assert "\n" not in str(error.value)


def test_quantize(llama: Llama, smol: Model, smollm2: Path, tmp_path: Path) -> None:
    target = tmp_path / "small.gguf"
    quantize(llama, smollm2, target, "q2_k", threads=2)
    small = Model(llama, target)
    assert small.size_bytes < smol.size_bytes
    assert "Q2_K" in small.desc
    assert small.tokenize("Hello") == smol.tokenize("Hello")
    small.close()
    assert [path.name for path in tmp_path.iterdir()] == ["small.gguf"]


def test_quantize_what_cannot_be(llama: Llama, smollm2: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no quantization Q9; there are: .*Q4_K_M"):
        quantize(llama, smollm2, tmp_path / "out.gguf", "Q9")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(smollm2.read_bytes()[:3_000_000])
    with pytest.raises(ModelBroken, match="cannot be quantized"):
        quantize(llama, broken, tmp_path / "out.gguf", "Q2_K")
    assert [path.name for path in tmp_path.iterdir()] == ["broken.gguf"]
