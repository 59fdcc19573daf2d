"""Where workers run: this machine, or what ``--on`` names."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.local import LocalWorkforce
from kerncap_stages.evaluate.memory_limit import choose_limit
from kerncap_stages.evaluate.on_ray import RayPlace
from kerncap_stages.evaluate.on_slurm import SlurmPlace
from kerncap_stages.evaluate.remote import RemoteWorkforce
from kerncap_stages.evaluate.scratch import ScratchMaker
from kerncap_stages.evaluate.split import SplitWorkforce
from kerncap_stages.evaluate.workers import choose_count, find_neighbours
from kerncap_stages.machine.softgpu import TARGETS

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.evaluate.channel import Place
    from kerncap_stages.evaluate.contract import Workforce
    from kerncap_stages.evaluate.local import WorkSettings
    from kerncap_stages.evaluate.subject import OpenedSubject
    from kerncap_stages.manifests.capture import Capture

_RAY, _SLURM = "ray", "slurm"
_CPUS = "--cpus"


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
        scratches = ScratchMaker(store, subject.roots, subject.captures)
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
    ray = _read_ray(on)
    cores = None if ray is None else ray[1]
    if cores is not None:
        _require_emulated(on, first)

    def make(place: Place, some: WorkSettings, count: int, name: str) -> RemoteWorkforce:
        own = folder / name
        own.mkdir()
        return RemoteWorkforce(place, store, subject.roots, first.device.architecture, some, count, own)

    place = _open_place(on, is_software=is_software)
    whole = make(place, settings, workers or place.count_free(), "nodes")
    if ray is None or cores is None:
        return whole
    limit = settings.max_replay_bytes or choose_limit(None, subject.captures, on_cores=True)
    on_cores = replace(settings, on_cores=True, max_replay_bytes=limit)
    judges = make(RayPlace(ray[0], is_software=True), on_cores, cores, "cores")
    return SplitWorkforce(judges, whole)


def _read_ray(on: str) -> tuple[str | None, int | None] | None:
    """Return a Ray cluster's address and how many cores judge; None if ``on`` names no Ray cluster.

    Raises UsageError for other words behind it.
    """
    name, *words = on.split() or [""]
    if name != _RAY and name.removeprefix("ray://") in ("", name):
        return None
    if words and not (len(words) == 2 and words[0] == _CPUS and words[1].isdecimal() and int(words[1])):
        told = " ".join(words)
        raise UsageError(f"--on {on!r}: {told!r} is no option of ray", hint=f"--on 'ray {_CPUS} 16'")
    return (None if name == _RAY else name), (int(words[1]) if words else None)


def _require_emulated(on: str, capture: Capture) -> None:
    """Raise UsageError unless the software GPU stands for the GPU of a capture."""
    target = capture.device.architecture
    if capture.device.software:
        raise UsageError(
            f"--on {on!r}: the capture is of the software GPU, whose variants are judged on cores anyway",
            hint="--workers says on how many",
        )
    if target not in TARGETS:
        raise UsageError(
            f"--on {on!r}: the software GPU does not emulate {target}",
            hint=f"without {_CPUS} GPUs judge, too; it emulates {', '.join(TARGETS)}",
        )


def _open_place(on: str, *, is_software: bool) -> Place:
    found = _read_ray(on)
    if found is not None:
        return RayPlace(found[0], is_software=is_software)
    try:
        words = shlex.split(on)
    except ValueError as error:
        raise UsageError(f"--on {on!r}: {error}", hint="--on 'slurm --partition=gpu'") from error
    if words[:1] == [_SLURM]:
        return SlurmPlace(words[1:], is_software=is_software)
    raise UsageError(
        f"--on {on!r} names nothing that workers run on",
        hint=f"give ray, ray://HOST:PORT, 'ray {_CPUS} 16', slurm, or 'slurm OPTIONS' with options of srun",
    )
