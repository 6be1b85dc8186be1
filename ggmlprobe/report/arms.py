"""Arms side by side: class letters by width, the kernels behind them, times and thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ggmlprobe.classes import joint_letters
from ggmlprobe.dispatch import price
from ggmlprobe.dispatch.proof import main_kernel
from ggmlprobe.record import Record, Result
from ggmlprobe.report.footer import footer
from ggmlprobe.report.kernels import short
from ggmlprobe.report.marks import ALONE, BESIDE
from ggmlprobe.report.table import Layout, command_line, constant_line, layout_of, pipe_table
from ggmlprobe.report.text import NONE, ascii_line, number, ranges
from ggmlprobe.report.times import interval, time_lines
from ggmlprobe.verdict import Verdict

OWN = "own"
MICRO = 1e6
# columns that tell an arm's children apart, which stand in the header here
CHILD_COLUMNS = ("arm", "env", "buft")

Rows = Mapping[int, Result]


@dataclass(frozen=True)
class Block:
    """One case: rows by arm and width, the library's own choice first."""

    label: str
    type: str
    arms: dict[str, dict[int, Result]]

    @property
    def widths(self) -> list[int]:
        """Widths of all arms, ascending."""
        return sorted({width for rows in self.arms.values() for width in rows})

    def samples(self, arm: str) -> dict[int, list[float]]:
        """Seconds by width, of the widths with enough of them for an interval."""
        rows = self.arms.get(arm, {})
        times = {width: row.time.samples for width, row in rows.items() if row.time}
        return {width: values for width, values in times.items() if len(values) > 1}


def table(record: Record) -> str:
    """Markdown: per case classes, kernels and times of every arm; thresholds; footer."""
    layout = layout_of(record)
    made = blocks(record, layout)
    parts = [command_line(record.command), constant_line(layout)]
    parts.append("\n".join(_legend(record)))
    for block in made:
        parts += [f"**{block.label}**" if block.label else "", _letters(block)]
        parts += ["\n".join(_served(block)), _times(block), _split_price(block)]
    notes = [*time_lines(record)[:1], *_uncertain(made), *_architectures(record)]
    parts += [_thresholds(made), "\n".join([*notes, *footer(record)])]
    return "\n\n".join(filter(None, parts)) + "\n"


def _legend(record: Record) -> list[str]:
    """What the cells mean, as far as they occur."""
    seen = {Verdict(row.verdict) for row in record.results}
    marks = {**ALONE, **{verdict: f"letter and {mark}" for verdict, mark in BESIDE.items()}}
    said = [f"{mark} {verdict}" for verdict, mark in marks.items() if verdict in seen]
    return [
        "- cells: class letter over all arms; A has the bits of width 1 as the library itself "
        f"computes it ({OWN})",
        *([f"- {', '.join(said)}"] if said else []),
    ]


def _uncertain(made: Sequence[Block]) -> list[str]:
    """Widths whose times have a note, which the JSON has in full."""
    lines = []
    for block in made:
        said = [
            f"{ascii_line(arm)} {ranges(noted)}"
            for arm, rows in block.arms.items()
            if (noted := [width for width, row in rows.items() if row.time_note])
        ]
        if said:
            label = f" of {block.label}" if block.label else ""
            lines.append(f"- uncertain times{label} (time_note in the JSON): {'; '.join(said)}")
    return lines


def _architectures(record: Record) -> list[str]:
    """For MUL_MAT_ID, whose limit must not be above what was compiled: both architectures."""
    if not any((config.arm or "").startswith("mmid") for config in record.configs):
        return []
    device = record.configs[0].device
    features = {name.upper(): value for name, value in device.features.items()}
    compiled = features.get("ARCHS", "not told")
    running = features.get("COMPUTE_CAPABILITY", "not told")
    return [f"- architectures: compiled {ascii_line(compiled)}, running {ascii_line(running)}"]


def blocks(record: Record, layout: Layout) -> list[Block]:
    """The record's cases."""
    names = {config.id: config.arm or OWN for config in record.configs}
    cells = {name: cell for name, cell in layout.varying.items() if name not in CHILD_COLUMNS}
    made: dict[str, Block] = {}
    for row in record.results:
        if row.case not in made:
            label = " ".join(f"{name}={cell(row)}" for name, cell in cells.items())
            made[row.case] = Block(label, _type(row), {name: {} for name in names.values()})
        made[row.case].arms[names[row.config]][row.width] = row
    return list(made.values())


def _type(row: Result) -> str:
    """What the paste-ready line calls the case: the type of the weights or of KV."""
    return ascii_line(str(row.params.get("type_a") or row.params.get("type_K") or row.op))


def _letters(block: Block) -> str:
    signatures = {
        (arm, width): [seed.hashes for seed in rows[width].seeds]
        for arm, rows in block.arms.items()
        for width in sorted(rows)
        if rows[width].seeds
    }
    letters = joint_letters(signatures)
    columns = {"width": [str(width) for width in block.widths]}
    for arm, rows in block.arms.items():
        columns[ascii_line(arm)] = [
            _cell(rows.get(w), letters.get((arm, w), NONE)) for w in block.widths
        ]
    return pipe_table(columns)


def _cell(row: Result | None, letter: str) -> str:
    if row is None:
        return NONE
    verdict = Verdict(row.verdict)
    return ALONE.get(verdict) or letter + BESIDE.get(verdict, "")


def _served(block: Block) -> list[str]:
    """Per arm: the kernel at each width, and why there is none at others."""
    lines = []
    for arm, rows in block.arms.items():
        said: dict[str, list[int]] = {}
        for width, row in sorted(rows.items()):
            kernel = short(main_kernel(row))
            text = kernel if row.seeds else f"{row.verdict}: {row.detail or row.signal or ''}"
            said.setdefault(ascii_line(text), []).append(width)
        texts = [f"{ranges(widths)} {text}" for text, widths in said.items()]
        lines.append(f"- {ascii_line(arm)}: {'; '.join(texts)}")
    return lines


def _pair(block: Block) -> tuple[str, str] | None:
    """The first two arms that were both timed at some width."""
    timed = [arm for arm in block.arms if arm != OWN and block.samples(arm)]
    for i, first in enumerate(timed):
        for second in timed[i + 1 :]:
            if block.samples(first).keys() & block.samples(second).keys():
                return first, second
    return None


def _times(block: Block) -> str:
    """Microseconds of the two arms, and how many times as long the second takes."""
    pair = _pair(block)
    return _against(block, *pair) if pair else ""


def _against(block: Block, a: str, b: str, at: Sequence[int] | None = None) -> str:
    first, second = block.samples(a), block.samples(b)
    widths = sorted(first.keys() & second.keys()) if at is None else list(at)
    made = [price.against(second[w], first[w]) for w in widths]
    columns = {
        "width": [str(width) for width in widths],
        f"{ascii_line(a)} us": [number(MICRO * price.median(first[w]).seconds) for w in widths],
        f"{ascii_line(b)} us": [number(MICRO * price.median(second[w]).seconds) for w in widths],
        "ratio": [f"{ratio.ratio:.3f}" for ratio in made],
        "95 %": [interval(ratio) for ratio in made],
    }
    return pipe_table(columns)


def _split_price(block: Block) -> str:
    """What it costs to split the widths that leave the class of the narrow calls."""
    name = next((arm for arm in block.arms if arm.startswith("split:") and block.samples(arm)), "")
    columns = int(name.removeprefix("split:") or 0)
    both = block.samples(OWN).keys() & block.samples(name).keys()
    widths = sorted(width for width in both if width > columns)
    return _against(block, OWN, name, widths) if name and widths else ""


def _threshold(a: Mapping[int, Sequence[float]], b: Mapping[int, Sequence[float]]) -> str:
    """The width from which b is faster, its interval, and the widths just below without times."""
    found = price.crossover(a, b)
    said = []
    if found.low != found.high:
        ends = ("none" if end is None else str(end) for end in (found.low, found.high))
        said.append(" to ".join(ends))
    if found.width is None:
        at = "none"
    else:
        at = str(found.width)
        below = max((w for w in a.keys() & b.keys() if w < found.width), default=found.width - 1)
        if gap := range(below + 1, found.width):
            said.append(f"{ranges(gap)} not timed")
    return f"{at} ({'; '.join(said)})" if said else at


def _thresholds(made: Sequence[Block]) -> str:
    """From which width the second arm is faster; cases with the same answer share a line."""
    lines: dict[tuple[str, str], list[str]] = {}
    for block in made:
        pair = _pair(block)
        if pair is None:
            continue
        text = _threshold(block.samples(pair[0]), block.samples(pair[1]))
        lines.setdefault((f"{pair[1]} from width, else {pair[0]}", text), []).append(block.type)
    arms = list(dict.fromkeys(arms for arms, _ in lines))
    tables = [
        pipe_table({
            f"threshold: {ascii_line(each)}": [text for arms, text in lines if arms == each],
            "types": [
                ", ".join(dict.fromkeys(types)) for (arms, _), types in lines.items()
                if arms == each
            ],
        })
        for each in arms
    ]  # fmt: skip
    return "\n\n".join(tables)
