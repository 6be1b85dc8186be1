"""libllama of the library under test, small models on one thread, and GGUF headers to edit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.llama.context import ModelContext
from ggmlprobe.ggml.llama.library import Llama
from ggmlprobe.ggml.llama.model import Model


@pytest.fixture(scope="session")
def llama(library: Library, llama_h: Path) -> Llama:
    """Return libllama, loaded into this process."""
    return Llama.load(library, llama_h)


@pytest.fixture(scope="session")
def smol(llama: Llama, smollm2: Path) -> Iterator[Model]:
    """Return SmolLM2 in plain buffers."""
    model = Model(llama, smollm2, extra_bufts=False)
    yield model
    model.close()


@pytest.fixture(scope="session")
def gemma(llama: Llama, gemma3: Path) -> Iterator[Model]:
    """Return Gemma 3 in plain buffers."""
    model = Model(llama, gemma3, extra_bufts=False)
    yield model
    model.close()


@pytest.fixture
def context() -> Iterator[Callable[..., ModelContext]]:
    """Return ModelContext with room for 256 positions, closed after the test."""
    made: list[ModelContext] = []

    def new(model: Model, **settings: Any) -> ModelContext:
        made.append(ModelContext(model, **{"n_ctx": 256} | settings))
        return made[-1]

    yield new
    for each in made:
        each.close()
