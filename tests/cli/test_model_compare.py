"""`ggmlprobe model compare` as a user meets it: exit status, formats, journal, bad input."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ggmlprobe import record

Cli = Callable[..., subprocess.CompletedProcess[str]]
# a shell that starts jobs in the background has them ignore it
DEFAULT_SIGINT = (
    "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "runpy.run_module('ggmlprobe', run_name='__main__')"
)
SMALL = ("-n", "3", "--block-width", "2", "--threads", "1", "--no-extra-bufts")


@pytest.fixture
def model_cli(cli: Cli, smollm2: Path, llama_h: Path) -> Cli:
    """Return the command on SmolLM2, a few tokens and one thread."""

    def run(*options: object, **more: Any) -> subprocess.CompletedProcess[str]:
        return cli(
            "model", "compare", smollm2, *SMALL, "--llama-h", llama_h, *options, timeout=600, **more
        )

    return run


def test_json_has_the_sections_and_reads_back(model_cli: Cli) -> None:
    done = model_cli("-p", "One two three", "-o", "json")
    data = json.loads(done.stdout)
    assert data["cells"] == 5
    assert len(data["flip_list"]) == data["flips"]
    assert [pair["pair"] for pair in data["pairs"]] == [
        "l_ar - l_single", "l_ar - l_block", "l_single - l_block",
    ]  # fmt: skip
    found = record.loads(done.stdout)
    (row,) = found.comparisons
    assert row.chat
    assert row.prompt_tokens > 5
    assert done.returncode == int(row.verdict != "INVARIANT")
    assert found.configs[0].model is not None
    assert found.configs[0].model.n_vocab == 49152


def test_markdown_has_the_pairs_and_ascii_only(model_cli: Cli) -> None:
    done = model_cli("-p", "Grüße", "--fa", "off,on", "--block-width", "2,3")
    assert done.stdout.isascii()
    assert "| l_ar - l_single " in done.stdout
    assert "| fa    | off " in done.stdout
    assert "self-check t=0 single" in done.stdout


def test_prompt_sets_and_flat_formats(model_cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "set.txt"
    path.write_text("First prompt\nSecond prompt\n")
    out = tmp_path / "out.csv"
    done = model_cli("--prompts", path, "--export-csv", out, "-o", "jsonl")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["prompt"], line["width"], line["fa"]) for line in lines] == [
        ("p0", 2, "off"), ("p1", 2, "off"),
    ]  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [row["cells"] for row in rows] == ["5", "5"]
    assert {"single_block_mean_abs", "flips", "verdict"} <= rows[0].keys()


def test_resume_keeps_finished_comparisons(model_cli: Cli, tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    first = json.loads(model_cli("-p", "Hello", "--resume", journal, "-o", "json").stdout)
    assert journal.read_text().count("\n") == 2
    options = ("-p", "Hello", "--resume", journal, "-o", "json", "--block-width", "2,3")
    again = json.loads(model_cli(*options).stdout)
    assert [row["width"] for row in again["comparisons"]] == [2, 3]
    # seconds would differ had it run again
    assert again["comparisons"][0] == first["comparisons"][0]
    assert journal.read_text().count("\n") == 3
    other = model_cli("-p", "Hello", "--resume", journal, "--fa", "on")
    assert other.returncode == 2
    assert "model.fa" in other.stderr


def test_an_interrupted_run_goes_on(
    cli_env: dict[str, str], model_cli: Cli, smollm2: Path, llama_h: Path, tmp_path: Path
) -> None:
    journal, prompts = tmp_path / "run.jsonl", tmp_path / "set.txt"
    prompts.write_text("First\nSecond\nThird\nFourth\n")
    options = ["--prompts", str(prompts), "--resume", str(journal), "--llama-h", str(llama_h)]
    process = subprocess.Popen(
        [sys.executable, "-c", DEFAULT_SIGINT, "model", "compare", str(smollm2), *SMALL, *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=cli_env,
    )  # fmt: skip
    limit = time.monotonic() + 300
    while not journal.exists() or journal.read_text().count("\n") < 2:
        assert time.monotonic() < limit
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"--resume {journal}" in err
    assert "interrupted, rows are missing" in out
    done = journal.read_bytes()
    data = json.loads(model_cli(*options, "-o", "json").stdout)
    assert [row["prompt"] for row in data["comparisons"]] == ["p0", "p1", "p2", "p3"]
    assert not data["interrupted"]
    assert journal.read_bytes().startswith(done)


def test_a_setting_the_model_cannot_run_with_is_a_row(model_cli: Cli) -> None:
    # libllama wants flash attention for a quantized V cache
    done = model_cli("-p", "Hello", "--fa", "off,on", "--ctv", "q8_0", "-o", "json")
    verdicts = [row["verdict"] for row in json.loads(done.stdout)["comparisons"]]
    assert verdicts[0] == "UNSUPPORTED"
    assert verdicts[1] in ("INVARIANT", "MISMATCH")
    alone = model_cli("-p", "Hello", "--ctv", "q8_0")
    assert alone.returncode == 2
    assert alone.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "-p PROMPT or --prompts FILE"),
        (("-p", "a", "--prompts", "builtin"), "-p PROMPT or --prompts FILE"),
        (("-p", ""), "-p PROMPT or --prompts FILE"),
        (("--prompts", "nowhere.txt"), "nowhere.txt: cannot be read"),
        (("-p", "a", "--block-width", "0"), "at least 1"),
        (("-p", "a", "--block-width", "513"), "more than one graph takes"),
        (("-p", "a", "--prefix", "both"), "is not one of"),
        (("-p", "a", "--retry"), "--retry goes with --resume"),
        (("-p", "a", "--export-md", "no/such/dir.md"), "mkdir -p"),
        (("-p", "a", "--device", "none"), "no device none"),
        (("-p", "a", "--ctk", "q9_9"), "q9_9"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(
    model_cli: Cli, options: tuple[str, ...], said: str
) -> None:
    done = model_cli(*options)
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("ggmlprobe: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_a_file_that_is_no_model_is_refused(cli: Cli, tmp_path: Path, llama_h: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    for model in (path, tmp_path / "none.gguf"):
        done = cli("model", "compare", model, "-p", "a", "--llama-h", llama_h)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert str(model) in done.stderr
