"""A loaded GGUF: its vocabulary, its properties, and quantizing it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ggmlprobe.errors import ModelBroken, UnknownDevice, Unsupported, UsageError
from ggmlprobe.ggml.device import devices as list_devices
from ggmlprobe.ggml.llama.library import Llama

_MAGIC = b"GGUF"
_PIECE = 256
ROLE = b"user"


def _check_file(path: Path) -> None:
    """Refuse what cannot be a GGUF, before libllama writes a page about it.

    Raises:
        ModelBroken: no such file, not readable, or another format.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise ModelBroken(f"{path} cannot be read: {error.strerror}; give a GGUF file") from error
    if magic != _MAGIC:
        raise ModelBroken(f"{path} is no GGUF (it begins with {magic!r}); give a GGUF file")


class Model:
    """A model in memory.

    Attributes:
        llama: the library.
        path: its file.
        extra_bufts: whether weights may lie in extra buffer types, such as CPU_REPACK and AMX.
        ptr: llama_model pointer.
        n_vocab: how many tokens there are.
        n_ctx_train: positions it was trained on.
        n_layer: how many blocks it has.
        desc: libllama's description, such as "llama 135M Q4_1".
        size_bytes: bytes of all its tensors.
        is_recurrent, is_hybrid: whether its memory, or a part of it, is a state.
        swa: sliding window in tokens, 0 for none.
    """

    def __init__(
        self, llama: Llama, path: Path | str, *, ngl: int = 0, extra_bufts: bool = True,
        devices: Sequence[str] | None = None, vocab_only: bool = False,
        progress: Callable[[float], None] = lambda share: None,
    ) -> None:  # fmt: skip
        """Load a model.

        Args:
            llama: the library.
            path: a GGUF file; the first one of a split model.
            ngl: layers on the GPU; -1 for all.
            extra_bufts: allow extra buffer types.
            devices: names of those to use beside the CPU; () or ("CPU",) for none, None for all.
            vocab_only: without weights; such a model has no context.
            progress: told from time to time how much is loaded, 0 to 1; must not raise.

        Raises:
            ModelBroken: truncated, corrupt, or of a kind that this library does not know.
            UnknownDevice: no such device.
        """
        self.llama, self.path, self.extra_bufts = llama, Path(path), extra_bufts
        _check_file(self.path)
        self._keep: list[Any] = []
        params = llama.c.llama_model_default_params()
        params.n_gpu_layers = ngl
        params.use_extra_bufts = extra_bufts
        params.vocab_only = vocab_only
        params.devices = self._devices(devices)

        def tell(share: float, user_data: Any) -> bool:
            progress(share)
            return True

        told = llama.ffi.callback("bool(float, void *)", tell)
        params.progress_callback = told
        llama.log.clear()
        self.ptr = llama.c.llama_model_load_from_file(str(self.path).encode(), params)
        if self.ptr == llama.ffi.NULL:
            reason = llama.log.reason() or "no reason given"
            raise ModelBroken(f"{self.path} cannot be loaded: {reason}; give another GGUF")
        self._vocab = llama.c.llama_model_get_vocab(self.ptr)
        self._describe()

    def _describe(self) -> None:
        c = self.llama.c
        self.n_vocab = int(c.llama_vocab_n_tokens(self._vocab))
        self.n_ctx_train = int(c.llama_model_n_ctx_train(self.ptr))
        self.n_layer = int(c.llama_model_n_layer(self.ptr))
        self.desc = self.llama.text(c.llama_model_desc, self.ptr) or ""
        self.size_bytes = int(c.llama_model_size(self.ptr))
        self.is_recurrent = bool(c.llama_model_is_recurrent(self.ptr))
        self.is_hybrid = c.has("llama_model_is_hybrid") and bool(c.llama_model_is_hybrid(self.ptr))
        self.swa = int(c.llama_model_n_swa(self.ptr)) if c.has("llama_model_n_swa") else 0

    def _devices(self, names: Sequence[str] | None) -> Any:
        """Return a NULL-terminated list of devices; NULL for all."""
        ffi, library = self.llama.ffi, self.llama.library
        if names is None:
            return ffi.NULL
        there = [device.name for device in list_devices(library)]
        handles = []
        for name in names:
            if name.lower() == "cpu":
                continue
            if name.lower() not in [each.lower() for each in there]:
                raise UnknownDevice(f"no device {name}; there are: {', '.join(there)}")
            index = [each.lower() for each in there].index(name.lower())
            handles.append(library.c.ggml_backend_dev_get(index))
        array = ffi.new("void *[]", [*handles, ffi.NULL])
        self._keep.append(array)
        return array

    def tokenize(self, text: str, *, special: bool = True, add_bos: bool = True) -> list[int]:
        """Return a text's tokens.

        Args:
            text: any text.
            special: take the names of special tokens in it as those tokens.
            add_bos: put BOS before and EOS behind, as far as the model wants them.

        Raises:
            UsageError: too long for libllama, or the model has no vocabulary.
        """
        raw = text.encode("utf-8", "surrogateescape")
        room = len(raw) + 8
        tokens = self.llama.ffi.new("int32_t[]", room)
        count = self.llama.c.llama_tokenize(
            self._vocab, raw, len(raw), tokens, room, add_bos, special
        )
        if count < 0:
            raise UsageError(f"{self.path} cannot tokenize this text; use a shorter one")
        return list(tokens[0:count])

    def piece(self, token: int) -> bytes:
        """Return a token's bytes, special ones by their names.

        Raises:
            UsageError: no such token.
        """
        if not 0 <= token < self.n_vocab:
            raise UsageError(f"token {token} is not in 0..{self.n_vocab - 1}")
        size = _PIECE
        while True:
            buffer = self.llama.ffi.new("char[]", size)
            length = self.llama.c.llama_token_to_piece(self._vocab, token, buffer, size, 0, True)
            if length >= 0:
                raw: bytes = self.llama.ffi.buffer(buffer, length)[:]
                return raw
            size = -length

    def is_eog(self, token: int) -> bool:
        """Tell whether a token ends a generation."""
        return bool(self.llama.c.llama_vocab_is_eog(self._vocab, token))

    def chat(self, prompt: str) -> str:
        """Return the prompt as the one user message in the model's own chat template.

        The prompt itself where the model has no template.

        Raises:
            Unsupported: libllama does not know this template.
        """
        ffi, c = self.llama.ffi, self.llama.c
        template = c.llama_model_chat_template(self.ptr, ffi.NULL)
        if template == ffi.NULL:
            return prompt
        content = ffi.new("char[]", prompt.encode("utf-8", "surrogateescape"))
        role = ffi.new("char[]", ROLE)
        message = ffi.new("struct llama_chat_message *", {"role": role, "content": content})
        made = self.llama.text(
            lambda buffer, size: c.llama_chat_apply_template(
                template, message, 1, True, buffer, size
            )
        )
        if made is None:
            raise Unsupported(
                f"libllama does not know the chat template of {self.path}; use --no-chat-template"
            )
        return made

    def meta(self, key: str) -> str | None:
        """Return a value of the GGUF's metadata as text, None where it is not there."""
        return self.llama.text(self.llama.c.llama_model_meta_val_str, self.ptr, key.encode())

    def close(self) -> None:
        """Free it; its contexts must be closed before. Harmless if done before."""
        if self.ptr != self.llama.ffi.NULL:
            self.llama.c.llama_model_free(self.ptr)
            self.ptr = self.llama.ffi.NULL


def quantize(
    llama: Llama, source: Path, target: Path, ftype: str, *, threads: int = 0, pure: bool = False
) -> None:
    """Write a model in another type, with libllama's own quantizer.

    Args:
        llama: the library.
        source: a GGUF file, quantized or not.
        target: where the new one goes; there only once it is whole.
        ftype: such as "Q2_K" or "Q4_K_M", in any case.
        threads: 0 for all cores.
        pure: give every tensor the same type.

    Raises:
        UsageError: no such type.
        ModelBroken: the source cannot be read, or not be quantized so.
    """
    names = {name.partition("_MOSTLY_")[2]: name for name in llama.header.enums["llama_ftype"]}
    if ftype.upper() not in names:
        there = ", ".join(sorted(filter(None, names)))
        raise UsageError(f"no quantization {ftype}; there are: {there}")
    _check_file(source)
    params = llama.ffi.new("struct llama_model_quantize_params *")
    params[0] = llama.c.llama_model_quantize_default_params()
    params.nthread, params.pure, params.allow_requantize = threads, pure, True
    params.ftype = llama.enum("llama_ftype", names[ftype.upper()])
    llama.log.clear()
    beside = target.with_name(f"{target.name}.part")
    try:
        if llama.c.llama_model_quantize(str(source).encode(), str(beside).encode(), params):
            reason = llama.log.reason() or "no reason given"
            raise ModelBroken(f"{source} cannot be quantized to {ftype}: {reason}")
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
