"""Makes a configuration the project's variant: its flags, its launch or its Python, and what make builds.

Every file that changes is copied to ``tune/before-N`` first.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from kerncap_stages.compilers.dependencies import find_first_error
from kerncap_stages.errors import DeviceError, UsageError
from kerncap_stages.evaluate.building import BUILD_S, FLAG_FILES
from kerncap_stages.evaluate.make_runner import MakeRunner, NotBuiltError
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.machine.user_folder import write_file
from kerncap_stages.project.folder import hash_file
from kerncap_stages.project.variants import VARIANTS
from kerncap_stages.replay.variant_shape import SUFFIX
from kerncap_stages.tune.applied import FOLDER, NAME, Applied, read_applied
from kerncap_stages.tune.making import VARIANT, VariantMaker
from kerncap_stages.tune.reproducer_script import NAME as SCRIPT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.tune.search import Found
    from kerncap_stages.tune.space import Configuration, Space

_SHAPE = VARIANT.partition(".")[0] + SUFFIX


@dataclass(frozen=True)
class Winner:
    """changed: the project's files that were written. kept: the folder with what they held before, if any.

    built: the code object. is_judged: it is the very one that was judged. shadowed_by: another code object
    of the project that kc-validate takes before it.
    """

    changed: tuple[str, ...]
    kept: Path | None
    built: str
    is_judged: bool
    shadowed_by: str | None


def apply_winner(project: Path, space: Space, captures: Sequence[Capture], found: Found) -> Winner:
    """Write a configuration into the project, and build it there.

    Raises DeviceError if it cannot be built now; the files are then as they were before.
    """
    files = _make_files(project, space, captures, found.configuration)
    changed = {name: data for name, data in files.items() if _read(project / name) != data}
    visible = tuple(name for name in changed if name != NAME)
    built_before = [name for name in (*VARIANTS, "built.sha256") if (project / name).is_file()]
    before = {name: _read(project / name) for name in (*changed, *built_before)}
    kept = _keep(project, [*visible, *built_before]) if visible else None
    try:
        for name, data in changed.items():
            write_file(project, name, data)
        _make(project)
    except BaseException:
        _put_back(project, before)
        raise
    stem = "candidate." if SCRIPT in files else "optimized."  # as the two kinds of Makefiles name it
    built = [name for name in VARIANTS if name.startswith(stem) and (project / name).is_file()]
    if not built:
        raise DeviceError(f"make in {project} built no code object", hint=f"make -C {project} recompile")
    first = next(name for name in VARIANTS if (project / name).is_file())
    return Winner(
        visible,
        kept,
        built[0],
        hash_file(project / built[0]) == found.code_digest,
        None if first == built[0] else first,
    )


def _make_files(
    project: Path, space: Space, captures: Sequence[Capture], configuration: Configuration
) -> dict[str, bytes]:
    """Return the files of the project as the configuration wants them, by their names."""
    files: dict[str, bytes] = {}
    with TemporaryFolder("apply") as work:
        maker = VariantMaker(project, space, captures, work, 1)
        script = maker.write_script(configuration)
        if script is not None:
            return {SCRIPT: script.encode()}
        added = maker.choose_flags(configuration)
        launch = maker.choose_launch(configuration)
    if added is not None:
        applied = read_applied(project)
        names = [each.name for each in sorted(project.glob(FLAG_FILES))]
        for name in names:
            files[name] = applied.remove_from(name, (project / name).read_bytes()) + added
        text = added.decode(errors="surrogateescape")
        files[NAME] = Applied(dict.fromkeys(names, text)).dump()
    if launch is not None:
        known = {name: value for name, value in asdict(launch).items() if value is not None}
        files[_SHAPE] = json.dumps(known).encode() + b"\n"
    return files


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _keep(project: Path, names: Iterable[str]) -> Path | None:
    """Copy files into a new folder; None if none of them exists."""
    held = {name: data for name in names if (data := _read(project / name)) is not None}
    if not held:
        return None
    number = 1
    while (project / FOLDER / f"before-{number}").exists():
        number += 1
    for name, data in held.items():
        write_file(project, f"{FOLDER}/before-{number}/{name}", data)
    return project / FOLDER / f"before-{number}"


def _put_back(project: Path, before: dict[str, bytes | None]) -> None:
    for name, data in before.items():
        if data is not None:
            write_file(project, name, data)
        else:
            with contextlib.suppress(OSError):
                (project / name).unlink()


def _make(project: Path) -> None:
    target = "assemble" if (project / "kernel_variant.s").is_file() else "recompile"
    again = f"make -C {project} {target}"
    if shutil.which("make") is None:
        raise UsageError("make is not on PATH", hint="install make")
    with MakeRunner(runs_python=(project / SCRIPT).is_file()) as runner:
        try:
            # A target may be newer than a file that was written in the same moment.
            made = runner.run(project, ["-B", target], BUILD_S)
        except NotBuiltError as error:
            raise DeviceError(f"the winner does not compile in {project}: {error}", hint=again) from error
    if not made.succeeded:
        raise DeviceError(
            f"the winner does not compile in {project}: {find_first_error(made.said)}", hint=again
        )
