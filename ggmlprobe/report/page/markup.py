"""The Markdown that reports are made of, as HTML: tables, lists, code, bold lines, text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import groupby

from ggmlprobe.verdict import Verdict

PIPE = re.compile(r"(?<!\\)\|")
CODE = re.compile(r"(`+) ?(.+?) ?\1")
VERDICTS = frozenset(map(str, Verdict))


def to_html(text: str) -> str:
    """HTML of a report; whatever stands in it is escaped."""
    made: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        made += [_RENDER[kind](list(lines)) for kind, lines in groupby(block.splitlines(), _kind)]
    return "\n".join(made)


def _kind(line: str) -> str:
    if line.startswith("|"):
        return "table"
    if line.startswith("- "):
        return "list"
    if line.startswith("**") and line.endswith("**"):
        return "head"
    return "code" if line.startswith("`") else "text"


def _table(lines: Sequence[str]) -> str:
    """A table; the rule below the names tells which columns hold numbers."""
    head, rule, *rows = map(_cells, lines)
    right = [cell.endswith(":") for cell in rule]
    names = "".join(
        f'<th scope="col"{_class(number)}>{escape(name)}</th>'
        for name, number in zip(head, right, strict=False)
    )
    body = "\n".join(
        "<tr>" + "".join(_cell(c, n) for c, n in zip(row, right, strict=False)) + "</tr>"
        for row in rows
    )
    return (
        '<div class="table"><table>\n'
        f"<thead><tr>{names}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|").replace("\\<", "<") for cell in PIPE.split(line)[1:-1]]


def _class(number: bool) -> str:
    return ' class="n"' if number else ""


def _cell(text: str, number: bool) -> str:
    if text in VERDICTS:
        return f'<td><span class="v {text}">{text}</span></td>'
    return f"<td{_class(number)}>{_inline(text)}</td>"


def _list(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{_inline(line[2:])}</li>" for line in lines) + "</ul>"


def _inline(text: str) -> str:
    return CODE.sub(r"<code>\2</code>", escape(text))


def _code(lines: Sequence[str]) -> str:
    texts = [re.sub(r"^(`+) ?(.*?) ?\1$", r"\2", line) for line in lines]
    return f"<pre><code>{escape(chr(10).join(texts))}</code></pre>"


def _head(lines: Sequence[str]) -> str:
    return "".join(f"<h2>{escape(line.strip('*'))}</h2>" for line in lines)


def _text(lines: Sequence[str]) -> str:
    return "".join(f"<p>{_inline(line)}</p>" for line in lines)


_RENDER = {"table": _table, "list": _list, "code": _code, "head": _head, "text": _text}
