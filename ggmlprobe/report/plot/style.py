"""What all pictures look like: readable on white, and inline on a dark page."""

from __future__ import annotations

from typing import Any

INK = "#1b1f23"
"""Text and axes; a page replaces it with the colour of its own text."""
GRID = "#8a94a0"
SERIAL = "#6f869c"
"""Class A, which is no finding."""
PALETTE = ("#d1495b", "#2a9d8f", "#e08e2b", "#7b6cc4", "#3f88c5", "#b5679c", "#7a8f3a", "#a2674b")
"""Other classes, and series; all are readable on white and on near-black."""
WIDE = 6.2
"""Inches."""

STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    # text stays text: it can be searched, and a `$` in a name is no formula
    "svg.fonttype": "none",
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
}


def class_color(number: int) -> str:
    """The colour of the class with this number; 0 is A."""
    return SERIAL if number == 0 else PALETTE[(number - 1) % len(PALETTE)]


def series_color(number: int) -> str:
    """The colour of a line with this number."""
    return PALETTE[number % len(PALETTE)]
