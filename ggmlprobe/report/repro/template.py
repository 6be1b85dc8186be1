"""Templates of C: placeholders, and lines that are there only under conditions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

_CONDITION = re.compile(r"(.*?) *//\? ([!\w ]+)")
_PLACE = re.compile(r"@(\w+)@")


def template(name: str) -> str:
    """The text of a file in templates/."""
    return (files(__package__) / "templates" / name).read_text(encoding="ascii")


def conditional(text: str, flags: Mapping[str, bool]) -> str:
    """The text without lines whose condition does not hold.

    A line that ends in `//? A !B` stays, less that, where flag A is set and B is not.
    """
    lines = []
    for line in text.splitlines():
        match = _CONDITION.fullmatch(line)
        if match is None:
            lines.append(line)
        elif all(flags[name.lstrip("!")] != name.startswith("!") for name in match[2].split()):
            lines.append(match[1])
    return "\n".join(lines) + "\n"


def fill(text: str, places: Mapping[str, str]) -> str:
    """The text with each `@name@` replaced; what takes its place is not looked at again."""
    return _PLACE.sub(lambda place: places[place[1]], text)


def literal(text: str) -> str:
    """A C string literal without a space in it: what no name has as octal escapes."""
    plain = "".join(
        chr(byte) if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) in "_-.,:/")
        else f"\\{byte:03o}"
        for byte in text.encode()
    )  # fmt: skip
    return f'"{plain}"'


def comment(lines: Sequence[str]) -> str:
    """A block comment of lines of ASCII; nothing in them ends it."""
    inner = "\n * ".join(line.replace("*/", "* /").replace("/*", "/ *") for line in lines)
    return f"/* {inner} */"
