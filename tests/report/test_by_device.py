"""Devices side by side: one row per case, and the narrowest width of each kind of finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ggmlprobe.record import Config, Record, Result
from ggmlprobe.report import FORMATS, matrix
from ggmlprobe.report.by_device import table
from ggmlprobe.report.paste import block

Rows = Callable[..., Result]
Make = Callable[..., Record]
ADDRESS = "10.0.0.5:50052"


def on_server(config: Config, name: str = "RPC0", **changes: Any) -> Config:
    device = replace(config.device, name=name, description=ADDRESS, endpoint=ADDRESS)
    return replace(config, id="c1", device=device, **changes)


def cells(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_nothing_of_one_device(record: Make, result: Rows, config: Config) -> None:
    other = replace(config, id="c1", threads=9)
    rows = [result(2, [0]), result(2, [0], config="c1")]
    assert table(record(rows, configs=[config, other])) == ""
    assert table(record([], configs=[config, on_server(config)])) == ""


def test_cells_are_the_first_width_of_each_finding(
    record: Make, result: Rows, config: Config
) -> None:
    types = {name: {"type_a": name, "m": 512} for name in ("f32", "q4_0")}
    rows = [result(w, [0] if w > 4 else [], params=types["f32"]) for w in (1, 4, 5, 8)]
    rows += [result(w, params=types["q4_0"]) for w in (1, 8)]
    there = {"config": "c1", "params": types["f32"]}
    rows += [
        result(8, verdict="CRASH", **there), result(5, verdict="CRASH", **there),
        result(4, [0], verdict="PRECISION", **there), result(2, [0], **there),
    ]  # fmt: skip
    unsupported = {"verdict": "UNSUPPORTED", "params": types["q4_0"], "config": "c1"}
    rows += [result(w, **unsupported) for w in (1, 8)]
    text = table(record(rows, configs=[config, on_server(config)]))
    head, _, first, second = cells(text)
    assert head == ["type_a", "CPU", f"RPC0[{ADDRESS}]"]
    assert first == ["f32", "5", "2,4p,5cr"]
    assert second == ["q4_0", "-", "."]
    assert text.endswith("finding, - none, cr CRASH, . UNSUPPORTED, p PRECISION")


def test_a_case_that_a_device_has_no_row_of_is_blank(
    record: Make, result: Rows, config: Config
) -> None:
    rows = [result(2, params={"m": 1}), result(2, params={"m": 2}), result(2, params={"m": 2})]
    rows[2] = replace(rows[2], config="c1")
    text = table(record(rows, configs=[config, on_server(config)]))
    assert cells(text)[2:] == [["1", "-", ""], ["2", "-", "-"]]


def test_settings_are_rows_and_a_single_case_has_one(
    record: Make, result: Rows, config: Config
) -> None:
    rows = [result(2), result(2, [0], config="c1")]
    text = table(record(rows, configs=[config, on_server(config)]))
    assert cells(text)[2:] == [["MUL_MAT", "-", "2"]]
    configs = [config, on_server(config), on_server(config, threads=9, threads_batch=9)]
    configs[2] = replace(configs[2], id="c2")
    text = table(record([*rows, result(2, config="c2")], configs=configs))
    assert cells(text)[2:] == [["2", "-", "2"], ["9", "", "-"]]


def test_it_stands_in_the_table_and_in_the_sweep(
    record: Make, result: Rows, config: Config
) -> None:
    made = record([result(2), result(2, [0], config="c1")], configs=[config, on_server(config)])
    for text in (FORMATS["md"](made), matrix.table(made), block(made)):
        assert table(made) in text
    for text in (FORMATS["md"](made), matrix.table(made)):
        assert "threads of a server are its own" in text
    assert "by device" not in FORMATS["md"](record([result(2)]))


def test_flat_formats_tell_servers_with_equal_names_apart(
    record: Make, result: Rows, config: Config
) -> None:
    made = record([result(2), result(2, config="c1")], configs=[config, on_server(config)])
    head, here, there = (line.split(",") for line in FORMATS["csv"](made).splitlines())
    at = head.index("endpoint")
    assert (here[at], there[at]) == ("", ADDRESS)
    assert f'"endpoint":"{ADDRESS}"' in FORMATS["jsonl"](made).replace('": "', '":"')


def test_a_name_that_holds_the_address_is_not_given_it_twice(
    record: Make, result: Rows, config: Config
) -> None:
    """With protocol 2 ggml named the device RPC[HOST:PORT]."""
    old = on_server(config, name=f"RPC[{ADDRESS}]")
    text = table(record([result(2), result(2, config="c1")], configs=[config, old]))
    assert cells(text)[0] == ["op", "CPU", f"RPC[{ADDRESS}]"]
