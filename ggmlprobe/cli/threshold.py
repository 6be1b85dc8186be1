"""`ggmlprobe threshold OP`: forced paths side by side, their bits, kernels and times."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import click

from ggmlprobe import plan, report
from ggmlprobe.cli.fleet import Fleet, cache_dir, cores
from ggmlprobe.cli.op_specs import FLASH_ATTN, MUL_MAT, MUL_MAT_ID, Chosen, add_commands
from ggmlprobe.cli.options import NAMES, ProbeOptions
from ggmlprobe.cli.run import run_and_print
from ggmlprobe.configs import configs_of, only_device
from ggmlprobe.dispatch import arms as dispatch_arms
from ggmlprobe.dispatch.arms import Arm
from ggmlprobe.dispatch.passes import check_kernels
from ggmlprobe.dispatch.threshold import Trial
from ggmlprobe.errors import SymbolMissing, UsageError
from ggmlprobe.ggml.native import native_library
from ggmlprobe.ranges import parse_positive
from ggmlprobe.record import Config
from ggmlprobe.report import arms as arms_report
from ggmlprobe.runner import Case
from ggmlprobe.worker.protocol import Event, Spec
from ggmlprobe.worker.supervisor import Worker

WIDTHS = parse_positive("1-16")
SHAPE = {"m": (4096,), "k": (4096,)}


@click.group(
    no_args_is_help=False,
    short_help="Force each path: from which width is one faster than the other?",
    epilog="\b\nArms:\n  " + "\n  ".join(dispatch_arms.listed()),
)
def threshold() -> None:
    """Force each path on a stock library: at which width should one take over from the other?

    Every arm runs in a process of its own, beside the library's own choice. The kernels that ran
    must prove it, else its rows say so and claim nothing.

    \b
    Example:
      ggmlprobe threshold mul_mat --types q4_K,iq3_s --widths 1-16
    """


class ArmFleet(Fleet):
    """A child for the library's own choice, c0, and one for each arm.

    Attributes:
        arms: by config id. files: the library's files that are loaded.
    """

    def __init__(
        self,
        options: ProbeOptions,
        op_name: str,
        names: Sequence[str] | None,
        cases_of: Callable[[Event], list[Case]],
    ) -> None:
        super().__init__(options)
        self.op_name, self.names, self.cases_of = op_name, names, cases_of
        self.arms: dict[str, Arm] = {}
        self.files: list[str] = []

    def start(self) -> Event:
        """Load the library as it is, then with each arm."""
        options = self.options
        buft = options.buft[0] if options.buft else None
        ready = self._add(Spec(options.lib, {}, cache_dir(), kernels=True), None, buft)
        self.files = ready["files"]
        backend = self.configs[0].device.backend
        found = self._chosen(backend, ready)
        for arm in found:
            arm.require(self.files)
        check_kernels(self.files, {backend})
        for arm in found:
            before = [str(native_library(name)) for name in arm.interposers]
            spec = Spec(options.lib, arm.child_env(), cache_dir(), before, kernels=True)
            self._add(spec, arm, arm.buft or buft)
        return ready

    def _chosen(self, backend: str, ready: Event) -> list[Arm]:
        """The arms that were named, or those of the default that can serve something."""
        found = dispatch_arms.chosen(backend, self.op_name, self.names)
        if self.names:
            return found
        cases = self.cases_of(ready)
        plan.check_cases(cases, ready["types"])
        return [
            arm for arm in found
            if any(arm.limit(case.op, width) is None for case in cases for width in case.widths)
        ]  # fmt: skip

    def _add(self, spec: Spec, arm: Arm | None, buft: str | None) -> Event:
        """Start a child; preload what must come first where opening it first does not do."""
        worker = Worker(spec, self.options.timeout)
        name = f"c{len(self.configs)}"
        self.workers[name] = worker
        ready = worker.ready()
        if ready["overshadowed"]:
            worker.stop()
            spec = preloaded(spec)
            worker = self.workers[name] = Worker(spec, self.options.timeout)
            ready = worker.ready()
        if ready["overshadowed"]:
            raise SymbolMissing(
                f"another library defines {ready['overshadowed'][0]} first: take it out of "
                "LD_PRELOAD, or leave the arm out"
            )
        self.configs.append(self._config(ready, spec, arm, buft))
        if arm is not None:
            self.arms[name] = arm
        return ready

    def _config(self, ready: Event, spec: Spec, arm: Arm | None, buft: str | None) -> Config:
        options = self.options
        made = configs_of(
            ready, only_device(options.device, "threshold"), (buft,), options.threads or (cores(),),
            options.threads_batch, spec.env, len(self.configs),
        )  # fmt: skip
        return replace(made[0], arm=arm.name if arm else None)


def preloaded(spec: Spec) -> Spec:
    """The same with the interposers in front of whatever the environment preloads."""
    others = os.environ.get("LD_PRELOAD", "")
    paths = ":".join(filter(None, [*spec.interpose, others]))
    return replace(spec, env={**spec.env, "LD_PRELOAD": paths})


def check_options(options: ProbeOptions) -> None:
    """Refuse what would multiply the children."""
    for name in ("threads", "threads_batch", "buft"):
        if len(getattr(options, name) or ()) > 1:
            raise UsageError(f"threshold compares arms: give --{name.replace('_', '-')} one value")
    if options.env:
        raise UsageError("threshold makes its own settings: leave --set-env out")


def compare(
    chosen: Chosen, options: ProbeOptions, arms: tuple[str, ...] | None, timed: bool
) -> None:
    """Run the library's own choice and every arm, and print them side by side."""
    check_options(options)
    if "m" in chosen.given and chosen.given["m"] is None and chosen.given["k"] is None:
        chosen = chosen.having(**SHAPE)

    def cases_of(ready: Event) -> list[Case]:
        # the serial runs of the library's own choice are what every arm is compared with
        return chosen.cases(ready, (1, *(options.widths or WIDTHS)))

    fleet = ArmFleet(options, chosen.spec.name, arms, cases_of)

    def drive(*given: Any) -> Any:
        return Trial(fleet.arms, fleet.files, timed, options.hot).drive(*given)

    run_and_print(
        replace(options, kernels=True, time=False, hot=False),
        cases_of,
        drive=drive,
        formats={**report.FORMATS, "md": arms_report.table},
        fleet=fleet,
    )


OPTIONS = (
    click.option("--arms", type=NAMES,
                 help="Paths to force, the first for narrow widths [those that fit the types]."),
    click.option("--no-time", "timed", flag_value=False, default=True, help="Do not time them."),
)  # fmt: skip

add_commands(
    threshold, compare, "--widths 1-16", own=OPTIONS, specs=(MUL_MAT, MUL_MAT_ID, FLASH_ATTN)
)
