"""Workers as tasks of Slurm: each is a node process that ``srun`` starts, and talks to over its streams.

srun forwards the standard streams: nodes share no folder with the coordinator, and no daemon is left. In an
allocation (salloc, sbatch) each worker is a step of it; elsewhere each waits for an allocation of its own.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.channel import NODE_COMMAND, StreamChannel

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMON = ("--ntasks=1", "--nodes=1", "--job-name=kc-evaluate", "--kill-on-bad-exit=1")


class SlurmPlace:
    """Starts nodes by srun."""

    def __init__(self, options: Sequence[str], *, is_software: bool) -> None:
        """``options``: of the user, for srun. Raises UsageError without Slurm."""
        srun = shutil.which("srun")
        if srun is None:
            raise UsageError(
                "--on slurm: there is no srun here", hint="run it on a machine of the cluster that has Slurm"
            )
        # Steps of one allocation share it, and take only what they ask for.
        step = ("--exact", "--mem=0") if "SLURM_JOB_ID" in os.environ else ()
        needs = ("--cpus-per-task=1",) if is_software else ("--gpus-per-task=1",)
        self._command = [srun, *_COMMON, *step, *needs, *options, *NODE_COMMAND]

    def count_free(self) -> int:
        """Return how many tasks the allocation has. Raises UsageError outside of one."""
        text = os.environ.get("SLURM_NTASKS", "")
        if not text.isdecimal() or text == "0":
            raise UsageError("--on slurm needs --workers here", hint="say how many workers: --workers 8")
        return int(text)

    def open(self, number: int) -> StreamChannel:  # noqa: ARG002 - all are alike
        """Start srun, which waits until the node is there."""
        return StreamChannel(self._command)

    def leave(self) -> None:
        """Do nothing: srun ends with its task."""
