"""kc-evaluate on a Ray cluster of this machine, by the number of its nodes.

Not among the rows of a whole run: Ray is in an environment of its own. `make bench ARGS='--only fleet'`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from edit_loop import demo
from evaluate_variants import FEW, evaluate, find_ceiling, variants
from frame import Figure, Run, row

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLUSTER = Path(__file__).resolve().parents[1] / "tests/helpers/ray_cluster.py"
_NODES = (1, 2, 4)


@contextlib.contextmanager
def cluster(nodes: int) -> Iterator[str]:
    """Run a cluster; its address."""
    # The paths of Ray's sockets have a limit.
    with (
        tempfile.TemporaryDirectory(prefix="kc-", dir="/tmp", ignore_cleanup_errors=True) as folder,
        subprocess.Popen(
            [sys.executable, str(_CLUSTER), str(nodes)],
            env={**os.environ, "TMPDIR": folder},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


@row("fleet.ray", f"variants a second on Ray, a node for each core / all cores busy, of {FEW}")
def ray(run: Run) -> Figure:
    made, folder = demo(run), variants(run, FEW)
    taken = {}
    for nodes in sorted({*_NODES, run.threads}):
        with cluster(nodes) as address:
            taken[nodes] = evaluate(made, folder, "--on", "ray", RAY_ADDRESS=address).seconds
    rates = ", ".join(f"{nodes}: {FEW / seconds:.1f}/s" for nodes, seconds in taken.items())
    rate, ceiling = FEW / taken[run.threads], find_ceiling(run)
    return Figure(rate, "/s", ceiling, rate / ceiling, note=f"nodes {rates}")
