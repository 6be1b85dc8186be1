"""Comparisons in a journal that is gone on with under other config ids."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from model_rows import config, header, made

from ggmlprobe.errors import RecordError
from ggmlprobe.journal import Journal, read


def test_a_comparison_changes_its_config_with_its_flips(tmp_path: Path) -> None:
    row = made(config="c9", flips_at=(4,))
    assert row.flip_list
    path = tmp_path / "run.jsonl"
    with Journal.open(path, header(config("c9"))) as journal:
        journal.append(row)
    again = header(config("c0"))
    with Journal.open(path, again, resume=True) as journal:
        (back,) = journal.partial.comparisons
        assert back.config == "c0"
        assert {flip.config for flip in back.flip_list} == {"c0"}
        journal.append(replace(back, prompt="other"))
    rows = read(path).comparisons
    assert [(each.prompt, each.config) for each in rows] == [("p0", "c9"), ("other", "c9")]
    assert {flip.config for each in rows for flip in each.flip_list} == {"c9"}
    with pytest.raises(RecordError, match=r"model\.fa is 'off' in the file, 'on' now"):
        Journal.open(path, header(config("c0", fa="on")), resume=True)
