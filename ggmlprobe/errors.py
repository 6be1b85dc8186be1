"""Every failure a user can cause, one class each; the message is one line that says the fix."""

from __future__ import annotations


class ProbeError(Exception):
    """Base of all errors that end a command with exit status 2."""


class InternalError(ProbeError):
    """A defect of ggmlprobe itself, met in the child process."""


class UsageError(ProbeError):
    """An option or argument has a value the command cannot work with."""


class NothingRan(UsageError):
    """No row of a run could be computed; 0 cases is a failure, never a pass."""


class LibraryNotFound(ProbeError):
    """No libggml where the user said, nor in any of the default places."""


class LibraryBroken(ProbeError):
    """A file that is no usable libggml: wrong format, a missing dependency, or wrong sums."""


class SymbolMissing(ProbeError):
    """The loaded library does not export a function this command needs."""


class UnknownType(ProbeError):
    """A tensor type the loaded library does not have."""


class UnknownDevice(ProbeError):
    """A device or buffer type the loaded library does not offer."""


class NoServer(ProbeError):
    """A ggml-rpc-server that cannot be used (once a run has begun a row, not an exit)."""

    verdict = "CRASH"


class SilentServer(NoServer):
    """A server that does not answer in time."""

    verdict = "TIMEOUT"


class Unsupported(ProbeError):
    """This library or device cannot run the op with these parameters (a row, not an exit)."""


class OutOfMemory(ProbeError):
    """A buffer could not be allocated, or would not fit (a row, not an exit)."""


class ComputeFailed(ProbeError):
    """ggml_backend_graph_compute returned a status other than success (a row, not an exit)."""


class FileExists(ProbeError):
    """An output file is there already and --force was not given."""


class RecordError(ProbeError):
    """A record or journal that is truncated, foreign, edited or from a newer version."""


class HeaderRefused(ProbeError):
    """A llama.h that is missing, not understood, or not of the library's own version."""


class ModelBroken(ProbeError):
    """A GGUF that is truncated, corrupt, hostile, or of a model this library does not know."""


class NotComparable(ProbeError):
    """Two records of other devices, seeds or cases."""
