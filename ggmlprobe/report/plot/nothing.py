"""The error of a picture that has no data."""

from __future__ import annotations

from ggmlprobe.errors import UsageError


class NothingToDraw(UsageError):
    """The record holds nothing of this kind; the message says what run does."""
