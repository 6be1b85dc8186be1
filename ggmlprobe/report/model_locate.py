"""`model locate` as text: where bits part, what is to blame, and how it goes on to the logits."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence

from ggmlprobe.classes import Classes
from ggmlprobe.codec import dumps, to_dict
from ggmlprobe.model.located import Location, NodeDifference, Replay
from ggmlprobe.record import Record
from ggmlprobe.report import json
from ggmlprobe.report.footer import device_line, library_line, machine_line
from ggmlprobe.report.rows import CONFIG_COLUMNS, configs_by_id
from ggmlprobe.report.table import command_line, pipe_table
from ggmlprobe.report.text import NONE, ascii_line, number, ranges
from ggmlprobe.verdict import Verdict, worst

SETTINGS = ("model", "fa", "type_k", "type_v", "ngl", "extra_bufts")
WAY_SHOWN = 9
YES = {True: "yes", False: "no", None: NONE}


def table(record: Record) -> str:
    """Markdown: command, settings, and for each width the proof, the culprits, the replay."""
    config = record.configs[0]
    constant = [f"{name}={CONFIG_COLUMNS[name](config)}" for name in SETTINGS]
    blocks = [command_line(record.command), " ".join(constant)]
    for location in record.locations:
        blocks += _location(location, len(record.locations) > 1)
    blocks += ["\n".join(_probe_lines(record)), "\n".join(_footer(record))]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _location(location: Location, several: bool) -> list[str]:
    head = [f"block width {location.width}"] if several else []
    if location.detail is not None:
        return [*head, f"- {location.verdict}: {ascii_line(location.detail)}"]
    culprits = [node for node in location.found if node.culprit_tokens]
    return [
        *head, "\n".join(_summary(location)), _culprits(culprits), "\n".join(_ends(location)),
        _replays(location),
    ]  # fmt: skip


def _summary(location: Location) -> list[str]:
    proof = (
        "watching every node left the logits' bits alone: "
        f"single {YES[location.unchanged_single]}, block {YES[location.unchanged_block]}"
    )
    if location.watched != "every node":
        proof += f"; watched {location.watched}, bisected"
    lines = [
        f"- verdict: {location.verdict}, width {location.width}, window {location.window}, "
        f"{location.prompt_tokens} prompt tokens",
        f"- {proof}",
        f"- nodes: {location.nodes}, compared {location.nodes_compared}, "
        f"differing {len(location.found)}",
        f"- logits differ in tokens: {ranges(location.logits_differing) or 'none'}; "
        f"argmax in: {ranges(location.flips) or 'none'}",
    ]
    if location.unmatched:
        names = ", ".join(map(ascii_line, location.unmatched[:WAY_SHOWN]))
        lines.append(f"- nodes of one graph only: {len(location.unmatched)} ({names})")
    if location.found:
        lines.append(f"- first node that differs: {_node(location.found[0])}")
    return lines


def _node(node: NodeDifference) -> str:
    layer = "" if node.layer is None else f" layer {node.layer}"
    return (
        f"{ascii_line(node.name)}: {node.op}{layer}, {node.type} {_shape(node.ne_single)} and "
        f"{_shape(node.ne_block)} in {ascii_line(node.buffer)}, from "
        f"{' and '.join(map(ascii_line, node.sources))}; tokens {ranges(node.tokens_differing)}"
    )


def _shape(ne: Sequence[int]) -> str:
    last = max((i for i, n in enumerate(ne) if n != 1), default=0)
    return f"[{','.join(map(str, ne[: last + 1]))}]"


def _kind(node: NodeDifference) -> tuple[str, ...]:
    """What culprits share that differ in their layer alone."""
    # a source's name holds the layer, too
    sources = [" ".join(source.split()[-3:]) for source in node.sources]
    # ggml numbers what has no name
    name = "node" if node.name.startswith("node_") else node.name.partition("-")[0]
    return node.op, name, node.type, " x ".join(sources)


def _culprits(culprits: Sequence[NodeDifference]) -> str:
    """A row for each kind of node whose inputs agree and whose output does not."""
    kinds: dict[tuple[str, ...], list[NodeDifference]] = {}
    for node in culprits:
        kinds.setdefault(_kind(node), []).append(node)
    if not kinds:
        return ""
    groups = list(kinds.values())
    return pipe_table(
        {
            "culprit": [ascii_line(group[0].name) for group in groups],
            "op": [group[0].op for group in groups],
            "sources": [ascii_line(kind[-1]) for kind in kinds],
            "layers": [
                ranges(n.layer for n in group if n.layer is not None) or NONE for group in groups
            ],
            "nodes": [str(len(group)) for group in groups],
            "tokens": [
                ranges(t for node in group for t in node.culprit_tokens) for group in groups
            ],
            "reach logits": [str(sum(node.reaches_logits for node in group)) for group in groups],
        }
    )


def _ends(location: Location) -> list[str]:
    if location.watched != "every node":
        return ["- nodes after the first one were not followed: watching them changes their bits"]
    if not location.way:
        return ["- no difference reaches the logits"] if location.found else []
    way = [ascii_line(name) for name in location.way]
    if len(way) > WAY_SHOWN:
        between = f"({len(way) - WAY_SHOWN} more)"
        way = [*way[: WAY_SHOWN - 3], between, *way[-3:]]
    lines = [f"- way to the logits: {' > '.join(way)}"]
    if location.found and location.found[0].name != location.way[0]:
        lines.append(f"- the difference of {ascii_line(location.found[0].name)} ends before them")
    return lines


def _replays(location: Location) -> str:
    if not location.replays:
        return ""
    names = {node.node: node.name for node in location.found}
    columns: dict[str, Callable[[Replay], str]] = {
        "replayed alone": lambda each: ascii_line(names[each.node]),
        "reproduces": lambda each: YES[each.reproduces],
        "same bits as in the model": lambda each: YES[each.exact],
        "columns": lambda each: ranges(each.columns_differing) or NONE,
        "elements": lambda each: f"{each.elements_differing}/{each.elements}",
        "max_ulp": lambda each: number(each.max_ulp),
        "max_abs": lambda each: number(each.max_abs),
    }
    notes = [
        f"- {ascii_line(names[each.node])}: {ascii_line(text)}"
        for each in location.replays
        for text in (each.cause, each.detail)
        if text
    ]
    made = pipe_table({name: list(map(cell, location.replays)) for name, cell in columns.items()})
    return "\n".join([made, *(["", *notes] if notes else [])])


def _probe_lines(record: Record) -> list[str]:
    """What the op probe says of the culprits' ops, on random inputs."""
    lines, configs = [], configs_by_id(record)
    for entry in record.classes:
        rows = [r for r in record.results if (r.case, r.config) == (entry.case, entry.config)]
        letters = Classes(entry.groups, entry.transitive, [])
        classes = " | ".join(f"{letters.letter(g[0])}: {ranges(g)}" for g in entry.groups if g)
        verdict = worst(Verdict(row.verdict) for row in rows)
        buft = CONFIG_COLUMNS["buft"](configs[entry.config])
        where = "" if len(configs) == 1 else f", buft {buft}"
        case = ascii_line(entry.case)
        lines.append(f"- op probe, random inputs{where}: {case}: {verdict}; {classes}")
    return lines


def _footer(record: Record) -> list[str]:
    lines = [
        f"- library: {library_line(record)}",
        f"- device: {device_line(record)}",
        f"- machine: {machine_line(record)}",
    ]
    return [*lines, "- interrupted, widths are missing"] if record.interrupted else lines


def render_csv(record: Record) -> str:
    """One row per node that differs."""
    names = list(NodeDifference.__dataclass_fields__)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["config", "width", "window", *names])
    for location in record.locations:
        for node in location.found:
            cells = [getattr(node, name) for name in names]
            flat = ["; ".join(map(str, c)) if isinstance(c, list) else c for c in cells]
            writer.writerow([location.config, location.width, location.window, *flat])
    return out.getvalue()


def render_jsonl(record: Record) -> str:
    """One line per location."""
    return "".join(dumps(to_dict(each)).strip() + "\n" for each in record.locations)


FORMATS: Mapping[str, Callable[[Record], str]] = {
    "md": table, "csv": render_csv, "json": json.render, "jsonl": render_jsonl,
}  # fmt: skip
"""As report.FORMATS."""
