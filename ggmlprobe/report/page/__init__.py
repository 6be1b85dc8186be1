"""A record as one HTML page: no network, tables that sort and filter, pictures inline."""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape
from importlib.resources import files

from ggmlprobe.record import Record
from ggmlprobe.report import plot
from ggmlprobe.report.around import around_lines
from ggmlprobe.report.controls import blanks, controls_table
from ggmlprobe.report.markdown import columns_of
from ggmlprobe.report.notes import Notes
from ggmlprobe.report.own import is_plain, renderer
from ggmlprobe.report.page.markup import to_html
from ggmlprobe.report.plot.style import INK
from ggmlprobe.report.table import layout_of, pipe_table
from ggmlprobe.report.text import ascii_line

SIZE = re.compile(r'<svg\b[^>]*?viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>')
DROPPED = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>", re.DOTALL)
ID = re.compile(r'(\bid="|url\(#|href="#)')


def page(record: Record) -> str:
    """The page; every string of the record is escaped, and no script but the page's own can run.

    Raises:
        UsageError: matplotlib is missing.
    """
    script = _asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    title = escape(ascii_line(" ".join(record.command.split()[:3])) or "ggmlprobe")
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{title}</title>\n<style>\n{_asset('page.css')}</style>\n</head>\n<body>\n<main>",
        f"<h1>{title}</h1>",
        *_body(record),
        f"</main>\n<script>{script}</script>\n</body>\n</html>\n",
    ]
    return "\n".join(parts)


def _asset(name: str) -> str:
    return files("ggmlprobe.report.page").joinpath(name).read_text(encoding="utf-8")


def _body(record: Record) -> list[str]:
    command, _, report = renderer(record)(record).partition("\n\n")
    parts = [to_html(command), *_pictures(record), to_html(report)]
    if record.results:
        parts += ["<h2>Controls</h2>", to_html(controls_table(record))]
        parts.append(to_html("\n".join(blanks(record))))
    if record.results and not is_plain(record):
        rows = pipe_table(columns_of(record, layout_of(record), Notes()))
        parts += [f"<h2>All {len(record.results)} rows</h2>", to_html(rows)]
    around = escape("\n".join(around_lines(record)))
    parts.append(f"<details><summary>environment</summary><pre>{around}</pre></details>")
    return parts


def _pictures(record: Record) -> list[str]:
    drawn = {kind: plot.inline(record, kind) for kind in plot.KINDS}
    figures = [
        f'<figure id="plot-{kind}">{_embedded(svg, kind)}</figure>'
        for kind, svg in drawn.items()
        if svg
    ]
    return [f'<div class="pictures">{"".join(figures)}</div>'] if figures else []


def _embedded(svg: str, kind: str) -> str:
    """SVG for inside the page: its text colour, sized by the page, ids of its own."""
    text = DROPPED.sub("", svg).replace(INK, "currentColor")
    text = ID.sub(rf"\g<1>{kind}-", text)
    return SIZE.sub(r'<svg viewBox="0 0 \1 \2" role="img" style="--wide:\1px">', text, count=1)
