"""What libllama says while it works: errors are kept, so that a failure can give its reason."""

from __future__ import annotations

import os
import re
from collections import deque
from typing import Any

# enum ggml_log_level of ggml.h
_WARN, _ERROR, _CONT = 3, 4, 5
_KEPT = 16
_STDERR = 2
_LONGEST = 400
# "llama_model_load: error loading model: check_tensor_dims: ..."
_PREFIX = re.compile(r"^\w+: (error loading model( hyperparameters)?: )*")


class Log:
    """Takes libllama's and libggml's messages; warnings and errors go on to stderr."""

    def __init__(self, ffi: Any, c: Any) -> None:
        """Install itself; it must live as long as the library does."""
        self._ffi = ffi
        self._level = 0
        self._errors: deque[str] = deque(maxlen=_KEPT)
        self._callback = ffi.callback("void(int, const char *, void *)", self._take)
        c.llama_log_set(self._callback, ffi.NULL)

    def _take(self, level: int, text: Any, user_data: Any) -> None:
        # a CONT continues the line before
        self._level = self._level if level == _CONT else level
        if self._level not in (_WARN, _ERROR):
            return
        raw = self._ffi.string(text)
        os.write(_STDERR, raw)
        if self._level == _ERROR and raw.strip():
            self._errors.append(raw.decode("utf-8", "replace").strip())

    def clear(self) -> None:
        """Forget what was said."""
        self._errors.clear()

    def reason(self) -> str:
        """Return the errors since clear() as one line, function names left out."""
        texts = [" ".join(_PREFIX.sub("", line).split()) for line in self._errors]
        telling = [text for text in texts if text != "failed to load model"]
        return "; ".join(dict.fromkeys(telling or texts))[:_LONGEST]
