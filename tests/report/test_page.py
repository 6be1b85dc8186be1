"""The page: self-contained, escaped, and alive in a browser."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from model_rows import header, made

from ggmlprobe.model.rates import record_of
from ggmlprobe.record import CaseClasses, Record, Result
from ggmlprobe.report.page import page
from ggmlprobe.report.page.markup import to_html

Browse = Callable[[str], str]
EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>&amp;$x^\\|`"
VOID = {"meta", "input", "br", "img", "link"}


@pytest.fixture(scope="session")
def chromium() -> str:
    """Return the browser; in CI it must be there."""
    found = shutil.which("chromium")
    if found is None:
        message = "no chromium: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture
def browse(chromium: str, tmp_path: Path) -> Browse:
    """Return a function from a page to its document after its scripts have run."""

    def run(text: str) -> str:
        path = tmp_path / "page.html"
        path.write_text(text)
        command = [chromium, "--headless", "--no-sandbox", "--disable-gpu",
                   "--disable-dev-shm-usage", f"--user-data-dir={tmp_path / 'profile'}",
                   "--dump-dom", path.as_uri()]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
        return done.stdout

    return run


class Elements(HTMLParser):
    """Start tags with their attributes, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def ten(result: Callable[..., Result], record: Callable[..., Record]) -> Record:
    """Return a record of ten widths, of which 4 and 10 differ."""
    rows = [result(w, [0] if w in (4, 10) else [], max_ulp=100 - w) for w in range(1, 11)]
    rows = [replace(row, ulp_histogram={"1": row.elements_differing}) for row in rows]
    same = [row.width for row in rows if not row.columns_differing]
    return record(rows, classes=[CaseClasses(rows[0].case, "c0", [same, [4, 10]], True)])


@pytest.fixture
def hostile(ten: Record) -> Record:
    """Return a record that has markup wherever it has text."""
    device = replace(ten.configs[0].device, name=EVIL, description=EVIL, features={EVIL: EVIL})
    library = replace(ten.configs[0].library, path=EVIL, version=EVIL, stamp={EVIL: EVIL})
    rows = [
        replace(row, params={"type_a": f"{EVIL}{row.width}", EVIL: EVIL}, op=EVIL, detail=EVIL,
                stderr_tail=[EVIL], kernels_note=EVIL, time_note=EVIL, case=EVIL)
        for row in ten.results
    ]  # fmt: skip
    return replace(
        ten, command=f"{EVIL} {EVIL}", results=rows,
        configs=[replace(ten.configs[0], device=device, library=library, env={EVIL: EVIL})],
        classes=[replace(ten.classes[0], case=EVIL)],
        environment=replace(ten.environment, cpu=EVIL, os=EVIL, env={EVIL: EVIL}),
    )  # fmt: skip


def test_nothing_is_fetched(ten: Record) -> None:
    text = page(ten)
    assert "default-src 'none'" in text
    for tag, attributes in Elements(text).tags:
        assert tag not in ("link", "img", "iframe", "object", "base", "form")
        assert "src" not in attributes
        for name in ("href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
    assert not re.search(r"url\((?!#)|@import", text)


def test_only_the_pages_own_script_may_run(hostile: Record) -> None:
    text = page(hostile)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'\"" in text


def test_hostile_strings_are_text(hostile: Record) -> None:
    elements = Elements(page(hostile))
    assert elements.open == []
    names = [tag for tag, _ in elements.tags]
    assert names.count("script") == 1
    assert "img" not in names
    assert not [a for _, attributes in elements.tags for a in attributes if a.startswith("on")]


def test_ids_are_unique(ten: Record) -> None:
    ids = [a["id"] for _, a in Elements(page(ten)).tags if "id" in a]
    assert len(ids) == len(set(ids)) > 5


def test_pictures_take_the_pages_colour(ten: Record) -> None:
    text = page(ten)
    assert 'id="plot-classes"' in text
    assert 'id="plot-ulp"' in text
    assert 'id="plot-time"' not in text, "nothing was timed"
    svg = text.partition('id="plot-classes"')[2].partition("</svg>")[0]
    assert "currentColor" in svg
    assert "#1b1f23" not in svg


def test_model_record_has_its_tables_and_pictures() -> None:
    rows = [made(width=width, flips_at=(4,)) for width in (2, 5)]
    text = page(record_of(header(), rows, False))
    assert 'id="plot-flips"' in text
    assert "near-ties</th>" in text
    assert text.count("<table>") > 3


def test_other_commands_have_all_rows_as_well(ten: Record) -> None:
    text = page(replace(ten, command="ggmlprobe sweep mul_mat"))
    assert "<h2>All 10 rows</h2>" in text
    assert "<h2>Controls</h2>" in text


def test_record_without_rows(ten: Record) -> None:
    text = page(replace(ten, results=[], classes=[], interrupted=True))
    assert Elements(text).open == []
    assert "interrupted" in text


def test_markup_of_reports() -> None:
    blocks = [
        "`a <b>`", "| x \\| y | n |\n|---|--:|\n| `c` | 1 |", "| z |\n|---|\n| \\<i> |",
        "- one\n- two `` `t` ``", "**h**", "p",
    ]  # fmt: skip
    assert to_html("\n\n".join(blocks)).split("\n") == [
        "<pre><code>a &lt;b&gt;</code></pre>",
        '<div class="table"><table>',
        '<thead><tr><th scope="col">x | y</th><th scope="col" class="n">n</th></tr></thead>',
        "<tbody>", '<tr><td><code>c</code></td><td class="n">1</td></tr>', "</tbody>",
        "</table></div>",
        '<div class="table"><table>', '<thead><tr><th scope="col">z</th></tr></thead>', "<tbody>",
        "<tr><td>&lt;i&gt;</td></tr>", "</tbody>", "</table></div>",
        "<ul><li>one</li><li>two <code>`t`</code></li></ul>", "<h2>h</h2>", "<p>p</p>",
    ]  # fmt: skip


PROBE = """
const table = document.querySelector("table");
const names = Array.from(table.querySelectorAll("th")).map((head) => head.textContent);
const button = (name) => table.querySelectorAll("th button")[names.indexOf(name)];
const seen = (name) => Array.from(table.tBodies[0].rows).filter((row) => !row.hidden)
  .map((row) => row.cells[names.indexOf(name)].textContent).join(" ");
const said = [];
button("max_ulp").click(); said.push(seen("width"));
button("max_ulp").click(); said.push(seen("width"));
const [input, select] = document.querySelectorAll(".tools input, .tools select");
const set = (element, value) => {
  element.value = value; element.dispatchEvent(new Event("input", { bubbles: true }));
};
set(select, "MISMATCH"); said.push(seen("width"));
set(input, "b 96"); said.push(seen("width"));
said.push(document.querySelector(".tools output").textContent);
set(select, ""); set(input, "no such row"); said.push(seen("width"));
said.push(document.documentElement.scrollWidth <= innerWidth);
document.body.dataset.said = said.join("/");
"""


def test_tables_sort_and_filter_in_a_browser(ten: Record, browse: Browse) -> None:
    # another script may run only in a page without its policy
    text = re.sub(r"<meta http-equiv=[^>]*>", "", page(ten))
    document = browse(text.replace("</body>", f"<script>{PROBE}</script></body>"))
    (said,) = re.findall(r'data-said="([^"]*)"', document)
    assert said.split("/") == [
        "10 9 8 7 6 5 4 3 2 1", "1 2 3 4 5 6 7 8 9 10", "4 10", "4", "1 of 10 rows", "", "true",
    ]  # fmt: skip


def test_the_policy_lets_the_own_script_run_and_no_other(hostile: Record, browse: Browse) -> None:
    text = page(hostile)
    marked = "<script>document.title = 'broken'</script>"
    document = browse(text.replace("</main>", f"{marked}</main>"))
    assert 'placeholder="filter rows"' in document, "made by the page's script"
    assert "<title>broken" not in document
