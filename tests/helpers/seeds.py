"""Twenty seeds, with each of which a variant has to be judged alike."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from stages import Stages

SEEDS = range(1, 21)


def require_one_outcome(
    stages: Stages, digest: str, variants: Mapping[str, Path], wrong: Collection[str], *words: object
) -> None:
    """Require with each seed that of these variants exactly ``wrong`` are wrong, as ``require_outcomes``."""
    for seed in SEEDS:
        require_outcomes(stages, digest, variants, wrong, "--seed", seed, *words)


def require_outcomes(
    stages: Stages, digest: str, variants: Mapping[str, Path], wrong: Collection[str], *words: object
) -> None:
    """Require that of these variants exactly ``wrong`` are wrong, the others right.

    kc-evaluate judges all in the same processes, and times those that are right. words: options of it.
    """
    folder = stages.folder / "variants"
    folder.mkdir(exist_ok=True)
    for name, file in variants.items():
        shutil.copy(file, folder / f"{name}.hsaco")
    done = stages.run("evaluate", digest, folder, "--workers", 1, "--json", *words)
    assert done.code in (0, 1), f"{words}: {done.err}"
    outcomes = {
        each["name"].rpartition("/")[2].removesuffix(".hsaco"): _read_outcome(each)
        for each in json.loads(done.out)["variants"]
    }
    wanted = {name: "wrong" if name in wrong else "right" for name in variants}
    assert outcomes == wanted, f"{words}: {done.err}"
    assert done.code == int("right" not in wanted.values())


def _read_outcome(variant: dict[str, Any]) -> str:
    """Return what the verdict says, which may pass a variant that only timed runs find to be wrong."""
    is_timed = variant["reasons"] and re.match(r"wrong in \d+ of \d+ timed runs", variant["reasons"][0])
    return "wrong when timed" if is_timed else str(variant["outcome"])
