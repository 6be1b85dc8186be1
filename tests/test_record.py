"""The record: one definition, checked reading, strict JSON, documents that cannot drift."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggmlprobe import record as rec
from ggmlprobe.codec import field_infos
from ggmlprobe.errors import RecordError
from ggmlprobe.verdict import Verdict

ROOT = Path(__file__).parent.parent


def make_record(**result: Any) -> rec.Record:
    row = {
        "config": "c0",
        "case": "MUL_MAT(type_a=q4_K,m=4,k=256)",
        "upstream_case": "MUL_MAT(type_a=q4_K,m=4,n=2,k=256)",
        "op": "MUL_MAT",
        "params": {"type_a": "q4_K", "m": 4, "bs": [1, 1], "scale": 0.5, "v": False, "w": None},
        "width": 2,
        "verdict": "MISMATCH",
        "columns_differing": [1],
        "elements": 8,
        "elements_differing": 1,
        "max_ulp": 3,
        "ulp_histogram": {"3-4": 1},
        "max_abs": 1e-6,
        "nmse_width": 0.0,
        "seeds": [rec.SeedResult(1, [1], 1, 3, ["00" * 8, "11" * 8], True)],
    }
    return rec.Record(
        schema=rec.SCHEMA_VERSION,
        command="ggmlprobe op mul_mat",
        configs=[
            rec.Config(
                "c0",
                rec.LibraryInfo("build/bin", "0.25.3", None, "--lib", {"sha256": "ab"}),
                rec.DeviceRecord("CPU", "a CPU", "CPU", "CPU", None, {"AVX": "1"}),
                None,
                2,
                2,
                {"GGML_CPU_TILED_MM": "0", "OMP_NUM_THREADS": None},
            )
        ],
        environment=rec.Environment("cpu", 1, 2, "os", "kernel", "3", "2", "0", "2026-01-01"),
        results=[rec.Result(**(row | result))],
        classes=[rec.CaseClasses(row["case"], "c0", [[1], [2]], True)],
        timing=rec.Timing(1.0, 0.5, None, 3),
    )


def damaged(path: str, value: Any) -> Any:
    """JSON data of a record with one value replaced, or taken away (``...``)."""
    data = json.loads(rec.dumps(make_record()))
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    place = data
    for part in parents:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return data


def test_round_trip() -> None:
    record = make_record()
    assert rec.loads(rec.dumps(record)) == record


def test_fields_with_defaults_may_be_missing() -> None:
    data = rec.to_dict(make_record())
    del data["timing"], data["results"][0]["signal"]
    assert rec.loads(json.dumps(data)).timing is None


def test_verdict_enumeration_is_stored_as_its_name() -> None:
    data = rec.to_dict(make_record(verdict=Verdict.CRASH))
    assert type(data["results"][0]["verdict"]) is str
    assert data["results"][0]["verdict"] == "CRASH"


@pytest.mark.parametrize("value", [math.nan, math.inf, np.float32("nan"), np.float64("-inf")])
def test_what_is_not_finite_becomes_null(value: float) -> None:
    text = rec.dumps(make_record(max_abs=value))
    assert '"max_abs":null' in text
    assert rec.loads(text).results[0].max_abs is None


def test_numpy_does_not_leak() -> None:
    row = {
        "width": np.int64(2),
        "max_abs": np.float32(0.5),
        "columns_differing": np.array([0, 1]),
        "params": {"k": np.int32(256), "flag": np.bool_(True)},
        "max_ulp": [np.int64(7)][0],
    }
    back = rec.loads(rec.dumps(make_record(**row))).results[0]
    assert (back.width, back.max_abs, back.columns_differing) == (2, 0.5, [0, 1])
    assert back.params == {"k": 256, "flag": True}
    plain = rec.to_dict(make_record(**row))["results"][0]
    assert type(plain["width"]) is int
    assert type(plain["max_abs"]) is float
    assert type(plain["params"]["flag"]) is bool


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot hold bytes"):
        rec.to_dict({"a": b""})


DAMAGE = [
    ("results/0/width", "2", "results[0].width: expected integer"),
    ("results/0/width", 2.5, "results[0].width: expected integer"),
    ("results/0/width", True, "results[0].width: expected integer"),
    ("results/0/width", 0, "results[0].width: expected integer of at least 1"),
    ("results/0/width", ..., "results[0].width: missing"),
    ("results/0/verdict", "FINE", "results[0].verdict: expected one of CRASH, TIMEOUT, "),
    ("results/0/columns_differing", 3, "results[0].columns_differing: expected array"),
    ("results/0/columns_differing", [0, "1"], "results[0].columns_differing[1]: expected integer"),
    ("results/0/ulp_histogram", [], "results[0].ulp_histogram: expected object"),
    ("results/0/max_abs", "nan", "results[0].max_abs: expected number"),
    ("results/0/max_abs", 10**400, "results[0].max_abs: expected number"),
    ("results/0/params/m", {}, "results[0].params.m: expected boolean or integer or number or "),
    ("results/0/seeds/0/repeats", 1, "results[0].seeds[0].repeats: expected boolean"),
    ("results/0/sigmal", None, "results[0].sigmal: unknown field"),
    ("results/0/a\n\x1b[", None, r"results[0].'a\n\x1b[': unknown field"),
    ("results/0/config", "c9", "results[0].config: no config 'c9'"),
    ("results/0", None, "results[0]: expected object"),
    ("results", {}, "results: expected array"),
    ("configs/0/library", None, "configs[0].library: expected object"),
    ("configs", [], "results[0].config: no config 'c0'"),
    ("timing/wall_seconds", None, "timing.wall_seconds: expected number"),
    ("schema", 99, "schema 99 is newer than this ggmlprobe reads (2): upgrade ggmlprobe"),
    ("schema", "1", "no ggmlprobe record: name a file that ggmlprobe wrote"),
    ("schema", ..., "no ggmlprobe record: name a file that ggmlprobe wrote"),
]


@pytest.mark.parametrize(("path", "value", "message"), DAMAGE)
def test_damage_is_named_in_one_line(path: str, value: Any, message: str) -> None:
    with pytest.raises(RecordError) as caught:
        rec.loads(json.dumps(damaged(path, value)))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_two_configs_of_one_id_are_refused() -> None:
    data = rec.to_dict(make_record())
    data["configs"] *= 2
    with pytest.raises(RecordError, match=r"configs\[1\]\.id: 'c0' is there twice"):
        rec.loads(json.dumps(data))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "3", "NaN", '{"schema": NaN}', "[" * 100_000, "9" * 10_000, "\x00"],
)
def test_foreign_text_is_one_line(text: str) -> None:
    with pytest.raises(RecordError) as caught:
        rec.loads(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}'])
def test_what_is_no_strict_json_is_refused(text: str) -> None:
    with pytest.raises(RecordError, match="is no JSON"):
        rec.parse(text)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_truncated_or_edited_text_is_a_record_or_an_error(data: st.DataObject) -> None:
    text = rec.dumps(make_record())
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))
    middle = data.draw(st.text(max_size=3))
    edited = text[:start] + middle + text[stop:]
    assert len(message_of(edited).splitlines()) <= 1


def message_of(text: str) -> str:
    """What the reader says of a text; empty if it is a record."""
    try:
        rec.loads(text)
    except RecordError as error:
        return str(error)
    return ""


def test_load_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with pytest.raises(RecordError, match=r"run\.json: cannot be read: No such file"):
        rec.load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordError, match=r"run\.json: no text"):
        rec.load(path)
    path.write_text("{")
    with pytest.raises(RecordError, match=r"run\.json: not JSON"):
        rec.load(path)
    path.write_text(rec.dumps(make_record()))
    assert rec.load(path) == make_record()


def test_committed_schema_is_the_generated_one() -> None:
    committed = (ROOT / "ggmlprobe" / "record.schema.json").read_text(encoding="ascii")
    assert committed == json.dumps(rec.schema(), indent=2) + "\n"


def test_schema_is_valid_and_accepts_a_record() -> None:
    jsonschema.Draft202012Validator.check_schema(rec.schema())
    jsonschema.validate(rec.to_dict(make_record()), rec.schema())


@pytest.mark.parametrize(("path", "value", "message"), DAMAGE)
def test_schema_refuses_what_the_reader_refuses(path: str, value: Any, message: str) -> None:
    # references, the version and a float's range are not in the schema
    validator = jsonschema.Draft202012Validator(rec.schema())
    accepted = validator.is_valid(damaged(path, value))
    beyond = "no config" in message or "is newer" in message or value == 10**400
    assert accepted == beyond


@pytest.mark.parametrize("cls", rec.DATACLASSES, ids=lambda cls: cls.__name__)
def test_every_field_is_documented(cls: type) -> None:
    document = (ROOT / "docs" / "record.md").read_text(encoding="ascii")
    assert rec.field_table(cls) in document, f"put this in:\n{rec.field_table(cls)}"


def test_every_dataclass_is_documented() -> None:
    reached = set(rec.schema()["$defs"]) | {"Record"}
    assert reached == {cls.__name__ for cls in rec.DATACLASSES}
    for cls in rec.DATACLASSES:
        assert all(info.metadata["doc"].endswith((".", "...")) for info in field_infos(cls))


def test_every_verdict_is_documented() -> None:
    document = (ROOT / "docs" / "record.md").read_text(encoding="ascii")
    places = [document.index(f"\n| {verdict} | ") for verdict in Verdict]
    assert places == sorted(places)


def test_records_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_record().interrupted = True  # type: ignore[misc]


def test_reading_leaves_the_data_alone() -> None:
    data = rec.to_dict(make_record())
    before = copy.deepcopy(data)
    rec.from_dict(rec.Record, data)
    assert data == before


def test_parent_process_starts_without_numpy() -> None:
    code = (
        "import sys, ggmlprobe.record, ggmlprobe.journal, ggmlprobe.report;"
        "ggmlprobe.record.collect_environment();"
        "print([name for name in ('numpy', 'scipy', 'cffi', 'jsonschema') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
