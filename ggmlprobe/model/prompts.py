"""Prompts: one that was given, a file of them, or the built-in set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ggmlprobe.errors import UsageError

BUILTIN = "builtin"
GIVEN = "given"


@dataclass(frozen=True)
class Prompt:
    """A prompt by name; names are unique in a set."""

    name: str
    text: str
    kind: str = GIVEN


def text_hash(text: str) -> str:
    """BLAKE2b-64 of a text, hexadecimal."""
    raw = text.encode("utf-8", "surrogateescape")
    return hashlib.blake2b(raw, digest_size=8).hexdigest()


def builtin() -> list[Prompt]:
    """Twelve short prompts: prose, code, low-entropy editing, reasoning."""
    text = resources.files("ggmlprobe.model").joinpath("prompts.json").read_text("utf-8")
    return from_json(json.loads(text), BUILTIN)


def read(path: Path) -> list[Prompt]:
    """Prompts of a file: JSON (as `from_json`) where it ends in .json, else one per line.

    Raises:
        UsageError: not readable, not of that form, or without prompts.
    """
    try:
        text = path.read_text("utf-8")
        if path.suffix == ".json":
            return from_json(json.loads(text), str(path))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        why = str(error).splitlines()[0]
        raise UsageError(f"{path}: {why}: write one prompt per line, or a JSON list") from error
    lines = [line.strip() for line in text.splitlines()]
    return checked([_numbered(i, line) for i, line in enumerate(filter(None, lines))], str(path))


def from_json(data: Any, where: str) -> list[Prompt]:
    """Prompts of a list of texts, or of objects with `text`, and `name` and `kind` if wanted.

    Raises:
        UsageError: something else.
    """
    if not isinstance(data, list):
        raise UsageError(f"{where}: no JSON list: write a list of texts")
    return checked([_entry(i, entry, where) for i, entry in enumerate(data)], where)


def _entry(i: int, entry: Any, where: str) -> Prompt:
    if isinstance(entry, str):
        return _numbered(i, entry)
    texts = isinstance(entry, dict) and all(isinstance(value, str) for value in entry.values())
    if not texts or not {"text"} <= entry.keys() <= {"text", "name", "kind"}:
        raise UsageError(
            f"{where}: entry {i} is neither a text nor an object with text, name, kind"
        )
    return Prompt(entry.get("name", f"p{i}"), entry["text"], entry.get("kind", GIVEN))


def _numbered(i: int, text: str) -> Prompt:
    return Prompt(f"p{i}", text)


def checked(prompts: Sequence[Prompt], where: str) -> list[Prompt]:
    """The prompts, where there are any and each name and text is there and names are unique.

    Raises:
        UsageError: one line.
    """
    if not prompts:
        raise UsageError(f"{where}: 0 prompts: write one per line")
    seen: set[str] = set()
    for prompt in prompts:
        if not prompt.name or not prompt.text:
            raise UsageError(f"{where}: prompt {prompt.name or '?'} has an empty name or text")
        if prompt.name in seen:
            raise UsageError(f"{where}: two prompts named {prompt.name}: rename one")
        seen.add(prompt.name)
    return list(prompts)


def chosen(given: Sequence[str], file: str | None) -> list[Prompt]:
    """The prompts a command names: its -p texts, or those of --prompts.

    Raises:
        UsageError: neither, or both.
    """
    if bool(given) == bool(file):
        raise UsageError(
            "give either -p PROMPT or --prompts FILE (--prompts builtin: 12 short ones)"
        )
    if file == BUILTIN:
        return builtin()
    if file:
        return read(Path(file))
    return checked([_numbered(i, text) for i, text in enumerate(given)], "-p")
