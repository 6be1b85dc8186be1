"""The structs that libllama passes by value, taken from the text of its own header.

Pure text: nothing is guessed, and what is not understood is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ggmlprobe.errors import HeaderRefused

STRUCTS = (
    "llama_batch",
    "llama_model_params",
    "llama_context_params",
    "llama_chat_message",
    "llama_model_quantize_params",
)
ENUMS = ("llama_flash_attn_type", "llama_ftype")

_SCALARS = frozenset(
    {"bool", "char", "int", "float", "double", "size_t"}
    | {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
# Function pointers that ggml's headers define.
_GGML_CALLBACKS = frozenset({"ggml_backend_sched_eval_callback", "ggml_abort_callback"})
_FIELD = re.compile(r"(?:const )?(?:(enum|struct) )?(\w+)((?: ?\*(?: ?const)?)*) ?(\w+)")
# Stands for a preprocessor line, which a struct must not hold.
_DIRECTIVE = "@"


@dataclass(frozen=True)
class Field:
    """A struct's field: its name, its type as cffi is told, and its enum where it has one."""

    name: str
    type: str
    enum: str | None = None


@dataclass(frozen=True)
class Header:
    """What a llama.h says.

    Attributes:
        structs: fields of each of STRUCTS, in order.
        enums: values by name of every enum that a struct uses, and of ENUMS, where defined.
    """

    structs: Mapping[str, tuple[Field, ...]]
    enums: Mapping[str, Mapping[str, int]]

    def cdef(self) -> str:
        """Return the structs as C for cffi; pointers as void *, enums as int."""
        return "\n".join(
            f"struct {name} {{ {' '.join(f'{f.type} {f.name};' for f in fields)} }};"
            for name, fields in self.structs.items()
        )


def parse(text: str) -> Header:
    """Take the structs and enums out of the text of a llama.h.

    Raises:
        HeaderRefused: one is not there, or holds something that is not understood.
    """
    bare = _without_comments(text)
    structs = {name: _fields(bare, name) for name in STRUCTS}
    used = {f.enum for fields in structs.values() for f in fields if f.enum}
    names = [n for n in sorted(used | set(ENUMS)) if re.search(rf"\benum {n} ?\{{", bare)]
    return Header(structs, {name: _enumerators(bare, name) for name in names})


def _without_comments(text: str) -> str:
    """Return the code with single spaces; each preprocessor line is one _DIRECTIVE."""
    text = re.sub(r"/\*.*?\*/", " ", text.replace("\\\n", " "), flags=re.DOTALL)
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"^[ \t]*#[^\n]*", _DIRECTIVE, text, flags=re.MULTILINE)
    return " ".join(text.split())


def _body(bare: str, kind: str, name: str) -> str:
    found = re.findall(rf"\b{kind} {name} ?\{{([^{{}}]*)\}}", bare)
    if len(found) != 1:
        raise HeaderRefused(
            f"llama.h has {len(found)} plain definitions of {kind} {name}; "
            "give the llama.h of this library with --llama-h"
        )
    body: str = found[0]
    return body


def _fields(bare: str, struct: str) -> tuple[Field, ...]:
    statements = [part.strip() for part in _body(bare, "struct", struct).split(";")]
    if statements.pop():
        raise _unknown(struct, "text after its last field")
    fields = tuple(_field(bare, struct, statement) for statement in statements)
    if not fields or len({f.name for f in fields}) != len(fields):
        raise _unknown(struct, "no or repeated fields")
    return fields


def _field(bare: str, struct: str, statement: str) -> Field:
    match = _FIELD.fullmatch(statement)
    if match is None:
        raise _unknown(struct, statement)
    keyword, type_, stars, name = match.groups()
    if stars:
        return Field(name, "void *")
    if keyword == "enum" and (
        type_.startswith("ggml_") or re.search(rf"\benum {type_} ?\{{", bare)
    ):
        return Field(name, "int", type_)
    if keyword is None and (scalar := _scalar(bare, type_)):
        return Field(name, scalar)
    raise _unknown(struct, statement)


def _scalar(bare: str, type_: str) -> str | None:
    """Return what a type without a keyword is; None where that is not known."""
    if type_ in _SCALARS:
        return type_
    if type_ in _GGML_CALLBACKS or re.search(rf"\btypedef [\w ]+\(\* ?{type_}\) ?\(", bare):
        return "void *"
    if re.search(rf"\btypedef struct \w+ ?\* ?{type_} ?;", bare):
        return "void *"
    alias = re.findall(rf"\btypedef (\w+) {type_} ?;", bare)
    return alias[0] if len(alias) == 1 and alias[0] in _SCALARS else None


def _unknown(struct: str, what: str) -> HeaderRefused:
    shown = what.replace(_DIRECTIVE, "#")[:80]
    return HeaderRefused(
        f"llama.h: struct {struct} holds what is not understood ({shown}); "
        "give the llama.h of this library with --llama-h"
    )


def _enumerators(bare: str, enum: str) -> dict[str, int]:
    values: dict[str, int] = {}
    following = 0
    for part in filter(None, (part.strip() for part in _body(bare, "enum", enum).split(","))):
        match = re.fullmatch(r"(\w+)(?: ?= ?(?:(-?\w+)|(\d+) ?<< ?(\d+)))?", part)
        if match is None:
            raise _unknown(enum, part)
        name, plain, base, shift = match.groups()
        if base is not None:
            following = int(base) << int(shift)
        elif plain is not None:
            following = _number(values, enum, plain)
        values[name] = following
        following += 1
    return values


def _number(values: Mapping[str, int], enum: str, text: str) -> int:
    if text in values:
        return values[text]
    try:
        return int(text, 0)
    except ValueError as error:
        raise _unknown(enum, text) from error
