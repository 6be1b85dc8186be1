"""Where the libraries built from native/ are: they work inside the probed process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ggmlprobe.errors import LibraryNotFound
from ggmlprobe.ggml.find import PACKAGED

ENVIRONMENT = "GGMLPROBE_NATIVE_DIR"


def native_library(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return one of native/'s libraries: `sampler` is libggmlprobe_sampler.so.

    Args:
        name: without prefix and suffix.
        environ: the environment to read.

    Raises:
        LibraryNotFound: it is not where GGMLPROBE_NATIVE_DIR says, or not in the package.
    """
    named = environ.get(ENVIRONMENT)
    path = Path(named or PACKAGED) / f"libggmlprobe_{name}.so"
    if path.is_file():
        return path
    fix = f"set {ENVIRONMENT} to the folder" if named else "install ggmlprobe with its build"
    raise LibraryNotFound(f"no {path.name} in {path.parent}: {fix} that holds it")
