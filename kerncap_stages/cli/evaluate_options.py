"""Options of the commands that judge many variants: kc-evaluate, kc-tune and kc-evaluate-serve."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kerncap_stages.cli.options import (
    FreshValuesOption,
    QuickOption,
    ReferenceOption,
    ReplayTimeoutOption,
    RtolOption,
    ToleranceOption,
    UlpOption,
)

WorkersOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=1024,
        help="Variants that are judged at the same time. Default: one for each GPU; on the software GPU one "
        "for each core; of the cluster, with --on.",
    ),
]
OnOption = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help="Where variants are judged: `ray` (the cluster of RAY_ADDRESS, or of this machine), "
        "`ray://HOST:PORT`, `'ray --cpus N'` (on N cores instead of GPUs, without times), `slurm`, or "
        "`'slurm OPTIONS'` with options of srun. Default: on this machine.",
    ),
]
RunsOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        max=10_000,
        help="Timed runs of each kernel for a variant that is right (GPU only).",
    ),
]
ReplayMemoryOption = Annotated[
    int | None,
    typer.Option(
        metavar="MIB",
        min=64,
        max=1 << 20,
        help="Memory that the replays of one variant may take; a variant that needs more gets no verdict. "
        "Default: on the software GPU 512 MiB and four times the captured memory, on a GPU no limit.",
    ),
]
DtypeOption = Annotated[
    str | None, typer.Option(metavar="TYPE", help="Element type of all outputs, as for kc-validate.")
]
VariantRunsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=10**9,
        help="Runs of a variant from the captured pre-state, as for kc-validate.",
    ),
]
FreshSeedOption = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, max=2**63 - 1, help="The seed of the inputs' fresh values. Default: random ones."
    ),
]
HeldOutOption = Annotated[
    list[str] | None,
    typer.Option(
        "--held-out",
        metavar="CAPTURE",
        help="Also judge on this capture, which the project does not hold; it counts in ranks as the others "
        "do. May be repeated.",
    ),
]
LinesOption = Annotated[
    Path | None,
    typer.Option(
        "--lines",
        metavar="FILE",
        help="Write a JSON object for each variant to FILE, a line each, as they come.",
    ),
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show each variant on a terminal, too, not only better ones.")
]


@dataclass(frozen=True)
class JudgingOptions:
    """How variants are judged and timed; ``option_groups.spread`` makes options of the fields."""

    workers: WorkersOption = None
    runs: RunsOption = 20
    tolerance: ToleranceOption = None
    rtol: RtolOption = None
    ulp: UlpOption = None
    dtype: DtypeOption = None
    reference: ReferenceOption = None
    variant_runs: VariantRunsOption = None
    quick: QuickOption = False
    fresh_values: FreshValuesOption = True
    timeout: ReplayTimeoutOption = 300.0
    max_memory: ReplayMemoryOption = None


DEFAULTS = JudgingOptions()
