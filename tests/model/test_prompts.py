"""Prompts of files, of the command line, and the built-in ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ggmlprobe.errors import UsageError
from ggmlprobe.model import prompts


def test_builtin_set_covers_its_kinds() -> None:
    there = prompts.chosen([], "builtin")
    assert Counter(prompt.kind for prompt in there) == {
        "prose": 3, "code": 3, "edit": 3, "reasoning": 3,
    }  # fmt: skip
    assert len({prompt.text for prompt in there}) == len(there)
    assert all(prompt.name.startswith(prompt.kind) for prompt in there)


def test_lines_are_prompts(tmp_path: Path) -> None:
    path = tmp_path / "set.txt"
    path.write_text("Hello \n\n  Grüße an alle\n", "utf-8")
    assert prompts.chosen([], str(path)) == [
        prompts.Prompt("p0", "Hello"), prompts.Prompt("p1", "Grüße an alle"),
    ]  # fmt: skip


def test_json_has_texts_or_objects(tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    path.write_text('["a\\nb", {"text": "c", "name": "third"}, {"text": "d", "kind": "code"}]')
    assert prompts.read(path) == [
        prompts.Prompt("p0", "a\nb"), prompts.Prompt("third", "c"),
        prompts.Prompt("p2", "d", "code"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", "\n \n", "0 prompts"),
        ("a.json", "[]", "0 prompts"),
        ("a.json", '["a"', "prompt per line"),
        ("a.json", '{"a": 1}', "no JSON list"),
        ("a.json", "[1]", "entry 0 is neither"),
        ("a.json", '[{"text": "a", "wrong": "b"}]', "entry 0 is neither"),
        ("a.json", '[{"text": 1}]', "entry 0 is neither"),
        ("a.json", '[{"text": ""}]', "empty"),
        ("a.json", '[{"text": "a", "name": "x"}, {"text": "b", "name": "x"}]', "two prompts"),
        ("a.json", "[" * 100000, "prompt per line"),
        ("a.txt", b"\xff\xfe", "prompt per line"),
    ],
)
def test_other_files_are_refused_in_one_line(
    tmp_path: Path, name: str, content: str | bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=said) as caught:
        prompts.chosen([], str(path))
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_no_or_two_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        prompts.chosen([], str(tmp_path / "none.txt"))
    for given, file in (([], None), (["a"], "builtin")):
        with pytest.raises(UsageError, match="-p PROMPT or --prompts"):
            prompts.chosen(given, file)


def test_hash_is_of_the_text() -> None:
    assert prompts.text_hash("a") != prompts.text_hash("b")
    assert len(prompts.text_hash("\udcff")) == 16
