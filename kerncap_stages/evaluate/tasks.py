"""What the coordinator and a worker tell each other: one JSON object a line, in both directions.

    setup   = what all tasks have in common; the first line to a worker
    ready   = the worker's first line: it has opened its store
    task    = one variant on one capture; the worker answers each with one result, in their order
    result  = the verdict and what it says; or why there is none

A worker needs nothing but this, a store and a device. ``node`` brings all three to another machine.
"""

from __future__ import annotations

import json
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerncap_stages.validate.compare.bounds import Bounds
from kerncap_stages.validate.precision.file import ReferenceFile
from kerncap_stages.validate.replays.speculation import NO_NEIGHBOURS, Neighbours
from kerncap_stages.validate.request import JudgeSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
READY = b'"ready"\n'


@dataclass(frozen=True)
class Setup:
    """What a worker is started with.

    store: the folder of the store that it works in. lists: whether it lists verdicts there itself; else the
    coordinator copies them. fresh: use no replays of the captured kernel that earlier verdicts kept.
    max_store_bytes: the worker ends, to be started again, when that store has grown by this much, or its
    memory to max_memory_bytes. max_replay_bytes: of the replays of one variant; 0: any. in_memory: the store
    is there, and the worker's own: what was read from it and hashed once needs no second time. neighbours:
    other workers. times: whether it times variants that are right, unless it is told to do nothing else.
    """

    store: str
    lists: bool
    settings: JudgeSettings
    machine: str
    runs: int  # timed runs on a device
    fresh: bool
    max_store_bytes: int
    max_memory_bytes: int
    max_replay_bytes: int
    in_memory: bool = False
    neighbours: Neighbours = NO_NEIGHBOURS
    times: bool = True
    version: int = VERSION


@dataclass(frozen=True)
class Task:
    """A variant to judge on a capture.

    code: the file, whose name the coordinator chose; None: the captured kernel, to be timed only.
    seed: of fresh values; it was chosen after the file was read, so the variant cannot know it.
    judged: it is known to be right, and is only timed. alone: in processes that no other variant has run in.
    """

    number: int
    capture: str
    source: str | None
    code: str | None
    shape: dict[str, Any] | None
    seed: int | None
    judged: bool = False
    alone: bool = False


@dataclass(frozen=True)
class Result:
    """The answer to a task. ``passed`` is None if there is no verdict; ``reasons`` then say why.

    verdict, code: digests of its manifest and of the variant's code in the worker's store.
    exit_code: of kc-validate for the same variant, if it raises an error. is_final: the same again would give
    the same. again: the worker has ended itself, to be started again. is_wrong_when_timed: it is wrong, but
    the verdict is not, because only a timed run was wrong. own_process: whether no other variant had run in
    the processes that judged and timed it.
    """

    number: int
    passed: bool | None = None
    verdict: str | None = None
    code: str | None = None
    reasons: tuple[str, ...] = ()
    exit_code: int | None = None
    is_final: bool = True
    time: dict[str, Any] | None = None
    again: bool = False
    is_wrong_when_timed: bool = False
    own_process: bool = True
    kept: tuple[str, ...] = field(default=())  # keys of replays of the captured kernel in the verdict


def write(message: Setup | Task | Result) -> bytes:
    """Write a message as one line."""
    return json.dumps(asdict(message)).encode("ascii") + b"\n"


def read_setup(line: bytes) -> Setup:
    """Read the first line to a worker. Raises ValueError if another version wrote it."""
    members = json.loads(line)
    if members.get("version") != VERSION:
        raise ValueError(
            f"the coordinator has version {members.get('version')!r} of the protocol, not {VERSION}"
        )
    settings = make_judge_settings(members.pop("settings"))
    return Setup(settings=settings, neighbours=Neighbours(**members.pop("neighbours")), **members)


def read_task(line: bytes) -> Task:
    """Read a task."""
    return Task(**json.loads(line))


def read_result(line: bytes) -> Result:
    """Read a worker's answer."""
    return make_result(json.loads(line))


def make_judge_settings(members: Mapping[str, Any]) -> JudgeSettings:
    """Make settings from their members, as JSON has them."""
    others = dict(members)
    reference = others.pop("reference", None)
    if reference is not None:
        others["reference"] = ReferenceFile(**reference)
    return JudgeSettings(Bounds(**others.pop("bounds")), **others)


def make_result(members: Mapping[str, Any]) -> Result:
    """Make a result from its members, as JSON has them."""
    return Result(**{**members, "reasons": tuple(members["reasons"]), "kept": tuple(members["kept"])})


def explain_unforeseen(error: Exception) -> str:
    """Explain why there is no verdict on a variant, after an error that nobody foresaw."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"it could not be judged: {type(error).__name__}: {error}{where}"
