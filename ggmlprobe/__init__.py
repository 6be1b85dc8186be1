"""Batch invariance of ggml operations: width W against serial width 1, bit for bit."""

__version__ = "0.1.0"
