"""Where workers run: this machine, or what ``--on`` names."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.local import LocalWorkforce
from kerncap_stages.evaluate.on_ray import RayPlace
from kerncap_stages.evaluate.on_slurm import SlurmPlace
from kerncap_stages.evaluate.remote import RemoteWorkforce
from kerncap_stages.evaluate.scratch import ScratchMaker
from kerncap_stages.evaluate.workers import choose_count, find_neighbours

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.evaluate.channel import Place
    from kerncap_stages.evaluate.contract import Workforce
    from kerncap_stages.evaluate.local import WorkSettings
    from kerncap_stages.evaluate.subject import OpenedSubject

_RAY, _SLURM = "ray", "slurm"


def open_workforce(
    on: str | None, subject: OpenedSubject, settings: WorkSettings, workers: int | None, folder: Path
) -> Workforce:
    """Open what starts workers. ``workers``: how many; None: as many as there are GPUs, or cores.

    folder: for a copy of the captures, which goes to nodes.
    Raises UsageError if ``on`` names nothing, or what it names is not installed or cannot be reached.
    """
    first, store = subject.first, subject.subject.store
    is_software = first.device.software
    if on is None:
        count = choose_count(workers, first)
        scratches = ScratchMaker(store, subject.roots)
        return LocalWorkforce(
            store,
            subject.captures,
            scratches,
            settings,
            count,
            subject.machine,
            folder,
            find_neighbours(count, first),
        )
    place = _open_place(on, is_software=is_software)
    count = workers or place.count_free()
    return RemoteWorkforce(place, store, subject.roots, first.device.architecture, settings, count, folder)


def _open_place(on: str, *, is_software: bool) -> Place:
    if on == _RAY or on.removeprefix("ray://") not in ("", on):
        return RayPlace(None if on == _RAY else on, is_software=is_software)
    try:
        words = shlex.split(on)
    except ValueError as error:
        raise UsageError(f"--on {on!r}: {error}", hint="--on 'slurm --partition=gpu'") from error
    if words[:1] == [_SLURM]:
        return SlurmPlace(words[1:], is_software=is_software)
    raise UsageError(
        f"--on {on!r} names nothing that workers run on",
        hint="give ray, ray://HOST:PORT, slurm, or 'slurm OPTIONS' with options of srun",
    )
