"""One case in one config while it runs: what each seed and width gave, and the rows that makes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ggmlprobe.classes import width_classes
from ggmlprobe.compare import Difference, merge
from ggmlprobe.dispatch.classes import dispatch_classes
from ggmlprobe.ops.attention import Attention
from ggmlprobe.ops.base import Op
from ggmlprobe.record import CaseClasses, Config, Kernel, Result, SeedResult, TimeStats
from ggmlprobe.verdict import Evidence, Verdict, judge, worst
from ggmlprobe.worker.protocol import Event, Request

Key = tuple[int, int]


@dataclass
class CaseRun:
    """Collects a child's events and makes a row of each width that is settled.

    Attributes:
        widths: ascending. seeds: in order; the first makes the weights.
        features: of the device, which set the op's NMSE bound.
        tokens: see runner.Case.
        outcomes: `outcome` events by (seed, width); width 1 is there even if it is no row.
        passes: what else to measure, see dispatch.passes. measured: its data by (pass, width).
        results: finished rows by width.
    """

    config: Config
    op_name: str
    op: Op
    widths: tuple[int, ...]
    seeds: tuple[int, ...]
    check: str | None = None
    passes: tuple[str, ...] = ()
    tokens: int | None = None
    outcomes: dict[Key, Event] = field(default_factory=dict)
    measured: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    results: dict[int, Result] = field(default_factory=dict)

    def __post_init__(self) -> None:
        suffix = f" check={self.check}" if self.check else ""
        self.case = self.op.case() + suffix
        self.params = self.op.params() | ({"check": self.check} if self.check else {})

    def extend(self, widths: Iterable[int]) -> None:
        """Add widths."""
        self.widths = tuple(sorted({*self.widths, *widths}))

    def take_finished(self, finished: Mapping[tuple[str, str, int], Result]) -> None:
        """Take rows of an earlier run of the same case with the same seeds and tokens."""
        place = (self.config.id, self.case)
        old = {key[2]: row for key, row in finished.items() if key[:2] == place}
        if self._tokens_moved(old):
            return
        for width in self.widths:
            row = old.get(width)
            if row is None or (row.seeds and not self._has_all(row)):
                continue
            self.results[width] = row

    def _has_all(self, row: Result) -> bool:
        """Whether an earlier row has these seeds, and something from every pass."""
        said = {"kernels": row.kernels_note, "time": row.time_note}
        return [seed.seed for seed in row.seeds] == list(self.seeds) and all(
            getattr(row, name) or said[name] for name in self.passes
        )

    def _tokens_moved(self, old: Mapping[int, Result]) -> bool:
        """Whether the earlier run was of another widest width, where that moves the tokens.

        Attention's tokens sit at the end of the cache; those of other ops are a prefix.
        """
        if not isinstance(self.op, Attention):
            return False
        seeds = old[1].seeds if 1 in old and not self.check else []
        widest = self.tokens or max(self.widths)
        return max(old, default=0) > widest or any(len(seed.hashes) != widest for seed in seeds)

    def pending(self) -> list[int]:
        """Widths without a row."""
        return [width for width in self.widths if width not in self.results]

    def request(self, fault: str | None, hot: bool = False) -> Request:
        """What is left to run."""
        settled = [(seed, width) for seed in self.seeds for width in self.results]
        fields = dataclasses.fields(self.op)  # type: ignore[arg-type]
        return Request(
            op=self.op_name, params={f.name: getattr(self.op, f.name) for f in fields},
            device=self.config.device.name, buft=self.config.buft, threads=self.config.threads,
            threads_batch=self.config.threads_batch, widths=list(self.widths),
            seeds=list(self.seeds), done=[*self.outcomes, *settled], check=self.check, fault=fault,
            passes=[name for name in self.passes if self._lacking(name)],
            pass_widths=self.pending(), hot=hot, tokens=self.tokens,
        )  # fmt: skip

    def take(self, event: Event) -> Iterator[Result]:
        """Take one event; the rows it finishes. A later row of a width holds."""
        kind = event["event"]
        if kind == "outcome":
            width = event["outcome"]["width"]
            self.outcomes[event["seed"], width] = event
            yield from self._finish_complete(width)
        elif kind == "measured":
            self.measured.setdefault((event["phase"], event["width"]), event["data"])
            yield from self._finish_complete(event["width"])
        elif kind == "done" or event.get("phase") in self.passes:
            yield from self._finish_unmeasured(event)
        elif kind in ("failed", "died"):
            whole = kind == "died" and event["phase"] != "width"
            hit = self.pending() if event["width"] is None or whole else [event["width"]]
            for width in hit:
                if self._is_news(width, event["verdict"]):
                    yield self._finish(width, self._failed(width, event))

    def _lacking(self, name: str) -> bool:
        """Whether a width without a row still lacks a pass's data."""
        return any((name, width) not in self.measured for width in self.pending())

    def _compared(self, width: int) -> bool:
        """Whether every seed of a width without a row has its outcome."""
        return width in self.pending() and all((s, width) in self.outcomes for s in self.seeds)

    def _finish_complete(self, width: int) -> Iterator[Result]:
        """The row of a width that has its outcomes and what every pass measured."""
        if self._compared(width) and all((name, width) in self.measured for name in self.passes):
            yield self._finish(width, self._judged(width))

    def _finish_unmeasured(self, event: Event) -> Iterator[Result]:
        """A pass died or gave nothing for some widths: their rows say so."""
        if event["event"] not in ("done", "died"):
            return
        names = self.passes if event["event"] == "done" else (event["phase"],)
        why = event.get("signal") or event.get("verdict") or "not measured"
        for width in filter(self._compared, self.pending()):
            for name in names:
                self.measured.setdefault((name, width), {f"{name}_note": why})
            yield from self._finish_complete(width)

    def _is_news(self, width: int, verdict: str) -> bool:
        """Whether a width has no row yet, or one of lower precedence than this.

        A width that fails with one seed fails again with the next one, which is no news. A death
        once its last seed was compared (memory it overwrote is found broken when freed) is.
        """
        row = self.results.get(width)
        return row is None or str(worst([Verdict(row.verdict), Verdict(verdict)])) != row.verdict

    def _finish(self, width: int, row: Result) -> Result:
        self.results[width] = row
        return row

    def _row(self, width: int, verdict: str, **fields: Any) -> Result:
        return Result(
            config=self.config.id, case=self.case, upstream_case=self.op.upstream_case(width),
            op=self.op.OP, params=self.params, width=width, verdict=verdict, **fields,
        )  # fmt: skip

    def _failed(self, width: int, event: Event) -> Result:
        """A row without a comparison."""
        detail = event.get("detail")
        if event["event"] == "died" and event["phase"] != "width":
            phase = "making inputs" if event["phase"] == "inputs" else "running width 1"
            detail = "; ".join(filter(None, [f"while {phase}", detail]))
        return self._row(
            width, event["verdict"], detail=detail, signal=event.get("signal"),
            stderr_tail=event.get("stderr", []),
        )  # fmt: skip

    def _judged(self, width: int) -> Result:
        """The row of a width that ran with every seed: counts added, maxima and columns joined."""
        events = [self.outcomes[seed, width] for seed in self.seeds]
        outcomes = [event["outcome"] for event in events]
        total = merge(Difference(**outcome["difference"]) for outcome in outcomes)

        def largest(name: str) -> float:
            return max(float(outcome[name]) for outcome in outcomes)

        verdict = worst(judge(self._evidence(outcome)) for outcome in outcomes)
        return self._row(
            width, str(verdict), detail=self._why(verdict, outcomes),
            columns_differing=total.columns, elements=total.elements,
            elements_differing=total.elements_differing, max_ulp=total.max_ulp,
            ulp_histogram=total.ulp_histogram, signed_zero=total.signed_zero,
            infinite=total.infinite, max_abs=total.max_abs,
            max_err_scaled=largest("max_err_scaled"), nmse_serial=largest("nmse_serial"),
            nmse_width=largest("nmse_width"), nan=sum(o["nan"] for o in outcomes),
            unwritten=sum(o["unwritten"] for o in outcomes),
            seeds=[self._seed_result(s, o) for s, o in zip(self.seeds, outcomes, strict=True)],
            compute_seconds=sum(event["compute_seconds"] for event in events),
            **events[-1].get("choices", {}), **self._measured(width),
        )  # fmt: skip

    def _why(self, verdict: Verdict, outcomes: list[dict[str, Any]]) -> str | None:
        """What a WRONG row is off by, and from what bound."""
        if verdict != Verdict.WRONG:
            return None
        worse = max(float(o[name]) for o in outcomes for name in ("nmse_serial", "nmse_width"))
        return f"NMSE {worse:.2g} above upstream's {self.op.bound(self.config.device.features):g}"

    def _measured(self, width: int) -> dict[str, Any]:
        """What the passes measured, as fields of the row."""
        fields: dict[str, Any] = {}
        for name in self.passes:
            fields |= self.measured[name, width]
        if "kernels" in fields:
            fields["kernels"] = [Kernel(**kernel) for kernel in fields["kernels"]]
        if "time" in fields:
            fields["time"] = TimeStats(**fields["time"])
        return fields

    def _evidence(self, outcome: dict[str, Any]) -> Evidence:
        return Evidence(
            nan=outcome["nan"], unwritten=outcome["unwritten"],
            repeats=outcome["serial_repeats"] and outcome["width_repeats"],
            differs=bool(outcome["difference"]["columns"]), nmse_serial=outcome["nmse_serial"],
            nmse_width=outcome["nmse_width"], bound=self.op.bound(self.config.device.features),
            elements=outcome["difference"]["elements"],
        )  # fmt: skip

    @staticmethod
    def _seed_result(seed: int, outcome: dict[str, Any]) -> SeedResult:
        difference = outcome["difference"]
        return SeedResult(
            seed=seed, columns_differing=difference["columns"],
            elements_differing=difference["elements_differing"], max_ulp=difference["max_ulp"],
            hashes=outcome["hashes"],
            repeats=outcome["serial_repeats"] and outcome["width_repeats"],
        )  # fmt: skip

    def classes(self) -> CaseClasses | None:
        """Width classes of the widths that ran; None for a check, or without a serial reference."""
        signatures = {
            width: [seed.hashes for seed in row.seeds]
            for width, row in self.results.items()
            if row.seeds
        }
        serial = [self.outcomes.get((seed, 1)) for seed in self.seeds]
        if all(serial):
            signatures[1] = [event["outcome"]["hashes"] for event in serial if event]
        if self.check or 1 not in signatures:
            return None
        made = width_classes(signatures)
        return CaseClasses(
            case=self.case, config=self.config.id, groups=made.groups,
            transitive=made.transitive, pairs=[list(pair) for pair in made.pairs],
            dispatch=dispatch_classes({w: row.kernels for w, row in self.results.items()}),
        )  # fmt: skip
