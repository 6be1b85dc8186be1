"""Dataclasses to and from JSON, and the JSON Schema of them, all read off the field definitions.

Types understood: str, int, float, bool, None, dataclasses, ``list[X]``, ``Mapping[str, X]`` and
unions. Field metadata: ``doc`` (what the field means), ``enum`` (the strings it may hold),
``minimum`` (of an integer).
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from ggmlprobe.errors import RecordError

T = TypeVar("T")

_SCALARS: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}


class FieldInfo(NamedTuple):
    """One dataclass field with its resolved type."""

    name: str
    hint: Any
    required: bool
    metadata: Mapping[str, Any]


@cache
def field_infos(cls: type) -> tuple[FieldInfo, ...]:
    """The fields of a dataclass in order, with types resolved."""
    hints = get_type_hints(cls)
    return tuple(
        FieldInfo(
            f.name,
            hints[f.name],
            f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING,
            f.metadata,
        )
        for f in dataclasses.fields(cls)
    )


def to_dict(value: Any) -> Any:
    """Plain JSON data of a dataclass, list, mapping or scalar.

    NaN and infinity become None, since JSON has neither. numpy scalars and arrays become Python
    numbers and lists, string enumerations plain strings, tuples lists.

    Raises:
        TypeError: a value JSON cannot hold.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_dict(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_dict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_dict(item) for item in value]
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:
    if type(value) in (str, int, bool, NoneType):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return str(value)
    # numpy's float64 is a float and its int64 is not an int; tolist() makes both plain
    if hasattr(value, "tolist"):
        return to_dict(value.tolist())
    raise TypeError(f"a record cannot hold {type(value).__name__}: {value!r}")


def from_dict(cls: type[T], data: Any, path: str = "") -> T:
    """Build dataclass ``cls`` from JSON data, checking every name and type.

    Args:
        cls: a dataclass of the record.
        data: what ``json.loads`` gave.
        path: where ``data`` sits in its document, for messages: ``results[3]``.

    Raises:
        RecordError: one line naming the place: ``results[3].width: expected integer``.
    """
    if not isinstance(data, dict):
        raise _expected(path, "object")
    kind: type = cls
    infos = field_infos(kind)
    unknown = data.keys() - {info.name for info in infos}
    if unknown:
        raise RecordError(f"{_join(path, min(unknown))}: unknown field")
    values: dict[str, Any] = {}
    for info in infos:
        where = _join(path, info.name)
        if info.name in data:
            values[info.name] = _decode(info.hint, data[info.name], where)
            _check_limits(values[info.name], info.metadata, where)
        elif info.required:
            raise RecordError(f"{where}: missing")
    return cls(**values)


def _check_limits(value: Any, metadata: Mapping[str, Any], where: str) -> None:
    if "enum" in metadata and value not in metadata["enum"]:
        raise _expected(where, "one of " + ", ".join(metadata["enum"]))
    if "minimum" in metadata and value < metadata["minimum"]:
        raise _expected(where, f"integer of at least {metadata['minimum']}")


def _decode(hint: Any, value: Any, path: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return from_dict(hint, value, path)  # type: ignore[arg-type]
    origin = get_origin(hint)
    if origin is list:
        return _decode_list(hint, value, path)
    if origin is Mapping:
        return _decode_mapping(hint, value, path)
    if origin is UnionType:
        return _decode_union(hint, value, path)
    return _decode_scalar(hint, value, path)


def _decode_list(hint: Any, value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise _expected(path, "array")
    (item,) = get_args(hint)
    return [_decode(item, entry, f"{path}[{i}]") for i, entry in enumerate(value)]


def _decode_mapping(hint: Any, value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _expected(path, "object")
    _, item = get_args(hint)
    return {key: _decode(item, entry, _join(path, key)) for key, entry in value.items()}


def _decode_union(hint: Any, value: Any, path: str) -> Any:
    options = get_args(hint)
    if value is None and NoneType in options:
        return None
    rest = [option for option in options if option is not NoneType]
    if len(rest) == 1:
        return _decode(rest[0], value, path)
    for option in rest:
        try:
            return _decode(option, value, path)
        except RecordError:
            continue
    raise _expected(path, " or ".join(_SCALARS.get(option, "array") for option in rest))


def _decode_scalar(hint: Any, value: Any, path: str) -> Any:
    if hint is float and type(value) in (int, float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    elif type(value) is hint:
        return value
    raise _expected(path, _SCALARS[hint])


def _join(path: str, name: str) -> str:
    # names come from the file: keep the message one printable ASCII line
    name = name if name.isidentifier() and name.isascii() else ascii(name)
    return f"{path}.{name}" if path else name


def _expected(path: str, what: str) -> RecordError:
    return RecordError(f"{path or 'document'}: expected {what}")


def json_schema(cls: type, title: str, uri: str) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a dataclass; the dataclasses it holds go under ``$defs``."""
    defs: dict[str, Any] = {}
    root = _object_schema(cls, defs)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": uri,
        "title": title,
    }
    return head | root | {"$defs": defs}


def _object_schema(cls: type, defs: dict[str, Any]) -> dict[str, Any]:
    infos = field_infos(cls)
    return {
        "type": "object",
        "properties": {info.name: _field_schema(info, defs) for info in infos},
        "required": [info.name for info in infos if info.required],
        "additionalProperties": False,
    }


def _field_schema(info: FieldInfo, defs: dict[str, Any]) -> dict[str, Any]:
    schema = _type_schema(info.hint, defs) | {"description": info.metadata["doc"]}
    limits = {key: info.metadata[key] for key in ("enum", "minimum") if key in info.metadata}
    return schema | limits


def _type_schema(hint: Any, defs: dict[str, Any]) -> dict[str, Any]:
    if dataclasses.is_dataclass(hint):
        name = hint.__name__  # type: ignore[union-attr]
        if name not in defs:
            defs[name] = _object_schema(hint, defs)  # type: ignore[arg-type]
        return {"$ref": f"#/$defs/{name}"}
    origin = get_origin(hint)
    if origin is list:
        return {"type": "array", "items": _type_schema(get_args(hint)[0], defs)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _type_schema(get_args(hint)[1], defs)}
    if origin is UnionType:
        return {"anyOf": [_type_schema(option, defs) for option in get_args(hint)]}
    return {"type": _SCALARS[hint]}


def type_name(hint: Any) -> str:
    """A field's type in JSON's words: ``list of integer``, ``object of string or null``."""
    if dataclasses.is_dataclass(hint):
        return hint.__name__  # type: ignore[union-attr]
    origin = get_origin(hint)
    if origin is list:
        return f"list of {type_name(get_args(hint)[0])}"
    if origin is Mapping:
        return f"object of {type_name(get_args(hint)[1])}"
    if origin is UnionType:
        return " or ".join(type_name(option) for option in get_args(hint))
    return _SCALARS[hint]


def field_table(cls: type) -> str:
    """Markdown table of a dataclass's fields: name, type, meaning."""
    rows = ["| field | type | meaning |", "|---|---|---|"]
    for info in field_infos(cls):
        meaning = info.metadata["doc"].replace("|", "\\|")
        rows.append(f"| `{info.name}` | {type_name(info.hint)} | {meaning} |")
    return "\n".join(rows) + "\n"


def dumps(data: Any) -> str:
    """One line of strict JSON, ASCII only, of a dataclass or plain data."""
    return json.dumps(to_dict(data), allow_nan=False, separators=(",", ":"))


def parse(text: str) -> Any:
    """JSON data of a text that may be anything.

    Raises:
        RecordError: it is no strict JSON.
    """
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not JSON ({str(error).splitlines()[0]})") from error


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
