"""Reproducers of one case: a C program, a line for --test-file, a struct for test-backend-ops."""

from __future__ import annotations

from ggmlprobe.report.repro.backend_ops_line import LABEL, Numbers, TypeSize, lines
from ggmlprobe.report.repro.backend_ops_struct import struct
from ggmlprobe.report.repro.c_program import SOURCE, link_line, program, run_line
from ggmlprobe.report.repro.case import Case, cases_of, chosen

__all__ = [
    "LABEL",
    "SOURCE",
    "Case",
    "Numbers",
    "TypeSize",
    "cases_of",
    "chosen",
    "lines",
    "link_line",
    "program",
    "run_line",
    "struct",
]
