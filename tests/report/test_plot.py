"""Pictures: of every kind and format, the same bytes each time, text as text."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from model_rows import config as model_config
from model_rows import header, made

from ggmlprobe.errors import UsageError
from ggmlprobe.model.rates import record_of
from ggmlprobe.record import CaseClasses, Config, Record, Result, TimeStats
from ggmlprobe.report import plot
from ggmlprobe.report.plot.draw import DRAWS
from ggmlprobe.report.plot.style import SERIAL, class_color

Rows = Callable[..., Result]
Make = Callable[..., Record]
PNG = b"\x89PNG\r\n\x1a\n"


def time(us: float) -> TimeStats:
    return TimeStats(us * 1e-6, us * 0.9e-6, us * 1.2e-6, 5, 1, 1, 1, False, 0.0)


@pytest.fixture
def full(repack_record: Record) -> Record:
    """Return a record with times and a histogram."""
    rows = [
        replace(row, time=time(10 * row.width), ulp_histogram={"3-4": 5, "1": 9, "1025-2048": 1})
        for row in repack_record.results
    ]
    return replace(repack_record, results=rows)


@pytest.fixture
def modelled() -> Record:
    """Return a record of `model compare` with every cell."""
    rows = [made(width=width, flips_at=(4,), shift=0.01) for width in (2, 5)]
    return record_of(header(model_config()), rows, False)


def texts(svg: bytes) -> list[str]:
    """Every text of a picture; parsing it shows that it is XML."""
    root = ElementTree.fromstring(svg)
    return [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_every_kind_is_drawn_by_something() -> None:
    assert tuple(DRAWS) == plot.KINDS


@pytest.mark.parametrize("kind", plot.KINDS)
def test_svg_and_png(full: Record, modelled: Record, kind: str) -> None:
    record = modelled if kind in ("flips", "margin") else full
    svg = plot.image(record, kind, "svg")
    assert texts(svg)
    assert plot.image(record, kind, "svg") == svg, "a picture in a repository must not churn"
    assert plot.image(record, kind, "png").startswith(PNG)


@pytest.mark.parametrize(
    ("kind", "says"),
    [("classes", "width classes"), ("ulp", "no element differs"), ("time", "--time"),
     ("flips", "model compare"), ("margin", "--cells")],
)  # fmt: skip
def test_record_without_what_a_picture_shows(
    result: Rows, record: Make, kind: str, says: str
) -> None:
    bare = record([result(1)])
    with pytest.raises(UsageError, match=says):
        plot.image(bare, kind, "svg")
    assert plot.inline(bare, kind) is None


def test_class_map_has_a_letter_and_a_colour_for_each_class(full: Record) -> None:
    svg = plot.image(full, "classes", "svg")
    assert [text for text in texts(svg) if len(text) == 1 and text.isalpha()] == ["A", "B", "B"]
    assert SERIAL.encode() in svg
    assert svg.count(f"fill: {class_color(1)}".encode()) == 2


def test_class_map_marks_rows_without_a_class(full: Record) -> None:
    dead = replace(full.results[0], width=9, verdict="CRASH", seeds=[])
    svg = plot.image(replace(full, results=[*full.results, dead]), "classes", "svg")
    assert "cr" in texts(svg)


def test_class_map_of_arms_has_one_alphabet(record: Make, result: Rows, config: Config) -> None:
    rows = []
    for name, bits in (("c0", "a"), ("c1", "b")):
        row = result(1, config=name)
        rows.append(replace(row, seeds=[replace(s, hashes=[bits]) for s in row.seeds]))
    classes = [CaseClasses(row.case, row.config, [[1]], True) for row in rows]
    armed = record(rows, configs=[config, replace(config, id="c1", arm="x")], classes=classes)
    drawn = texts(plot.image(armed, "classes", "svg"))
    assert [text for text in drawn if text in ("A", "B")] == ["A", "B"], "other bits than c0's A"


def test_ulp_buckets_are_in_order(full: Record) -> None:
    drawn = texts(plot.image(full, "ulp", "svg"))
    assert [text for text in drawn if text in ("1", "3-4", "1025-2048")][:3] == [
        "1", "3-4", "1025-2048",
    ]  # fmt: skip


def dashes(svg: bytes) -> int:
    return svg.count(b"stroke-dasharray: ")


def test_class_boundaries_are_drawn_into_the_time(full: Record) -> None:
    plain = replace(full, classes=[])
    one = dashes(plot.image(full, "time", "svg")) - dashes(plot.image(plain, "time", "svg"))
    assert one == 1
    three = replace(full.classes[0], groups=[[1], [4], [5]])
    more = replace(full, classes=[three])
    assert dashes(plot.image(more, "time", "svg")) == dashes(plot.image(plain, "time", "svg")) + 2


def test_many_cases_are_said_to_be_left_out(result: Rows, record: Make) -> None:
    rows = [result(1, params={"m": m}, time=time(m)) for m in range(1, 12)]
    drawn = " ".join(texts(plot.image(record(rows), "time", "svg")))
    assert "(first 8 of 11 cases)" in drawn


def test_labels_leave_out_what_follows_from_the_rest(result: Rows, record: Make) -> None:
    rows = [
        result(1, params={"hsk": hs, "nh": 1024 // hs, "type_K": name}, time=time(1))
        for hs in (64, 128) for name in ("f16", "q8_0")
    ]  # fmt: skip
    drawn = texts(plot.image(record(rows), "time", "svg"))
    assert "hsk=128 type_K=q8_0" in drawn


def test_margin_without_cells_has_the_flips(modelled: Record) -> None:
    rows = [replace(row, cell_values=None) for row in modelled.comparisons]
    bare = replace(modelled, comparisons=rows)
    assert any("flips alone" in text for text in texts(plot.image(bare, "margin", "svg")))
    every = texts(plot.image(modelled, "margin", "svg"))
    assert any("every cell" in text for text in every)
    flips = sum(row.flips for row in rows)
    assert f"flip ({flips})" in every


@pytest.mark.parametrize("evil", ["$x^", "$\\frac{", "<script>&\"'", "a\nb", "caf\u00e9 \u2028"])
def test_hostile_names_stay_names(result: Rows, record: Make, evil: str) -> None:
    rows = [
        result(1, [0], params={"t": name}, time=time(1), ulp_histogram={evil: 1})
        for name in (evil, "z")
    ]
    classes = [CaseClasses(row.case, "c0", [[1]], True) for row in rows]
    hostile = record(rows, classes=classes)
    for kind in ("classes", "ulp", "time"):
        svg = plot.image(hostile, kind, "svg")
        assert b"<script" not in svg
        ElementTree.fromstring(svg)


def test_numbers_that_no_picture_holds(full: Record) -> None:
    rows = [replace(row, ulp_histogram={"1": 10**400}) for row in full.results]
    with pytest.raises(UsageError, match="cannot be drawn"):
        plot.image(replace(full, results=rows), "ulp", "png")


def test_matplotlib_is_asked_for_where_it_is_missing(
    full: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("ggmlprobe.report.plot.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"pip install 'ggmlprobe\[plot\]'"):
        plot.image(full, "classes", "svg")


def test_matplotlib_is_not_imported_before_it_is_needed() -> None:
    program = "import ggmlprobe.cli, sys; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("name", ["x.pdf", "svg", "x", "x.svg.gz"])
def test_names_of_other_formats_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"\.svg or \.png"):
        plot.form_of(Path(name))
    assert plot.form_of(Path("a.b.PNG")) == "png"
