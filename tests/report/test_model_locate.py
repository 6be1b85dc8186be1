"""`model locate` and `model ops` as tables, from records made here."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

from ggmlprobe import record as rec
from ggmlprobe.model.located import GraphOp, Location, NodeDifference, Replay
from ggmlprobe.model.record import ModelSettings
from ggmlprobe.record import Record
from ggmlprobe.report import model_locate, model_ops


def node(name: str, place: int, culprit: list[int], reaches: bool = True) -> NodeDifference:
    """A product of layer 2 that differs in tokens 0 and 3."""
    return NodeDifference(
        place, 2, name, "MUL_MAT", "f32", [576, 1, 1, 1], [576, 5, 1, 1], "CPU",
        ["w q4_1 [576,576] CPU", "x f32 [576,5] CPU"], [0, 3], culprit, reaches,
    )  # fmt: skip


LOCATION = Location(
    "c0", 5, 0, True, 13, [1, 2, 3, 4, 5], "MISMATCH", unchanged_single=True, unchanged_block=True,
    nodes=100, nodes_compared=60, logits_differing=[3],
    found=[node("kq-2", 7, [0, 3]), node("attn_out-2", 9, []), node("kq-3", 17, [0], False)],
    way=["kq-2", "attn_out-2", "result_output"],
    replays=[Replay(7, True, True, columns_differing=[0, 3], elements=2880, elements_differing=9,
                    max_ulp=64, max_abs=1e-6)],
)  # fmt: skip


def of(made: Record, *locations: Location) -> Record:
    """The record of a run of locate."""
    settings = ModelSettings("m.gguf", "llama 1B", 1, 2)
    configs = [replace(config, model=settings) for config in made.configs]
    return replace(made, configs=configs, locations=list(locations), results=[], classes=[])


def test_culprits_of_one_kind_are_one_row(repack_record: Record) -> None:
    lines = model_locate.table(of(repack_record, LOCATION)).splitlines()
    (row,) = [line for line in lines if line.startswith("| kq-2") and "MUL_MAT" in line]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[3:] == ["2", "2", "0,3", "1"]
    assert not any(line.startswith("| attn_out-2") for line in lines)


def test_way_and_replay_are_told(repack_record: Record) -> None:
    text = model_locate.table(of(repack_record, LOCATION))
    assert "- way to the logits: kq-2 > attn_out-2 > result_output" in text
    (row,) = [line for line in text.splitlines() if "9/2880" in line]
    assert row.split("|")[2].strip() == "yes"


def test_a_way_that_starts_later_says_so(repack_record: Record) -> None:
    moved = replace(LOCATION, way=["kq-3", "result_output"])
    text = model_locate.table(of(repack_record, moved))
    assert "- the difference of kq-2 ends before them" in text


def test_why_it_does_not_reproduce(repack_record: Record) -> None:
    alone = replace(LOCATION, replays=[Replay(7, False, False, "placement: CPU alone, GPU0 there")])
    text = model_locate.table(of(repack_record, alone))
    assert "- kq-2: placement: CPU alone, GPU0 there" in text


def test_one_node_per_run_follows_no_way(repack_record: Record) -> None:
    one = replace(
        LOCATION, watched="one node per run", unchanged_block=False, way=[],
        found=LOCATION.found[:1],
    )  # fmt: skip
    text = model_locate.table(of(repack_record, one))
    assert "single yes, block no; watched one node per run, bisected" in text
    assert "not followed" in text
    assert "no difference reaches" not in text


def test_a_width_that_died_is_a_line(repack_record: Record) -> None:
    dead = replace(LOCATION, verdict="CRASH", detail="SIGILL in phase compute", found=[], way=[])
    text = model_locate.table(of(repack_record, LOCATION, dead))
    assert "- CRASH: SIGILL in phase compute" in text


def test_csv_and_json_hold_every_node(repack_record: Record) -> None:
    made = of(repack_record, LOCATION)
    rows = list(csv.DictReader(io.StringIO(model_locate.render_csv(made))))
    assert [row["name"] for row in rows] == ["kq-2", "attn_out-2", "kq-3"]
    assert rows[0]["culprit_tokens"] == "0; 3"
    again = rec.loads(model_locate.FORMATS["json"](made))
    assert again.locations == [LOCATION]


def test_ops_show_classes_once_where_they_agree(repack_record: Record) -> None:
    case = repack_record.classes[0].case
    kind = GraphOp("MUL_MAT", "q4_K", "q4_K [64,64] x f32 [64]", 30, "Qcur-0", "w", "CPU", case)
    both = replace(kind, case_real=case)
    none = GraphOp("GET_ROWS", "f32", "f32 [64] x i32 [1]", 1, "embd", None, "CPU")
    text = model_ops.table(replace(repack_record, graph_ops=[kind, both, none]))
    rows = [line for line in text.splitlines() if line.startswith("| MUL_MAT")]
    classes = [row.split("|")[10].strip() for row in rows]
    assert classes[0] == classes[1] != "-"
    assert "not probed, they move values or have states: GET_ROWS" in text
