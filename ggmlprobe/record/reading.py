"""From a JSON text or file to a record that is whole and agrees with itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ggmlprobe.codec import from_dict, parse
from ggmlprobe.consistency import check_values
from ggmlprobe.errors import RecordError
from ggmlprobe.record.config import Config
from ggmlprobe.record.run import SCHEMA_VERSION, Record, Row


def check_schema(data: Any) -> None:
    """Refuse what no ggmlprobe wrote, or a newer one did.

    Raises:
        RecordError: one line.
    """
    version = data.get("schema") if isinstance(data, dict) else None
    if type(version) is not int or "configs" not in data:
        raise RecordError("no ggmlprobe record: name a file that ggmlprobe wrote")
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"schema {version} is newer than this ggmlprobe reads ({SCHEMA_VERSION}): "
            "upgrade ggmlprobe"
        )


def check_references(configs: list[Config], rows: Mapping[str, Row]) -> None:
    """Refuse rows of a config that is not there, and two configs of one id.

    Args:
        configs: the configs of the record.
        rows: results, classes and the like by their place, for messages.

    Raises:
        RecordError: one line naming the place.
    """
    ids = [config.id for config in configs]
    for i, name in enumerate(ids):
        if name in ids[:i]:
            raise RecordError(f"configs[{i}].id: {name!a} is there twice")
    for path, row in rows.items():
        if row.config not in ids:
            raise RecordError(f"{path}.config: no config {row.config!a}")


def loads(text: str) -> Record:
    """The record in a JSON text.

    Raises:
        RecordError: truncated, edited, foreign or of a newer schema; one line.
    """
    data = parse(text)
    check_schema(data)
    record = from_dict(Record, data)
    rows: dict[str, Row] = {}
    lists = ("results", "classes", "runs", "bisections", "comparisons", "locations", "speculated")
    for name in lists:
        rows.update({f"{name}[{i}]": row for i, row in enumerate(getattr(record, name))})
    check_references(record.configs, rows)
    check_values(record)
    return record


def load(path: Path) -> Record:
    """The record in a file.

    Raises:
        RecordError: one line that begins with the path.
    """
    try:
        return loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}: no text: name a file that ggmlprobe wrote") from error
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error
