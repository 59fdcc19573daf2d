"""Builds variants from sources, each in the place of a project's own source, by the project's own Makefile.

A project is copied once for each build that runs at the same time, without its capture. So builds neither
meet each other nor change the user's project, and what its Makefile keeps (a precompiled header) is kept.
"""

from __future__ import annotations

import contextlib
import queue
import shutil
from typing import TYPE_CHECKING

from kerncap_stages.compilers.dependencies import find_first_error
from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.make_runner import MakeRunner, NotBuiltError
from kerncap_stages.evaluate.recipe import read_recipe
from kerncap_stages.evaluate.regular import read_regular_file
from kerncap_stages.evaluate.snapshot import copy_project
from kerncap_stages.generate.mirror import make_nvcc_response_text
from kerncap_stages.generate.overlay import make_response_text
from kerncap_stages.project.folder import CAPTURE
from kerncap_stages.project.variants import VARIANTS
from kerncap_stages.replay.variant_shape import find_variant_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.replay.variant_shape import VariantShape

_BUILT = (*VARIANTS, "built.sha256")
FLAG_FILES = "compile_flags*.rsp"
BUILD_S = 600.0  # one build may take so long
_MAX_SOURCE_BYTES = 64 << 20


class Builder:
    """Builds sources with what a project records."""

    def __init__(
        self,
        project: Path,
        work: Path,
        places: int,
        timeout_s: float,
        source: str | None = None,
        trim: Callable[[str, bytes], bytes] | None = None,
    ) -> None:
        """``work``: a folder for copies. ``places``: how many builds run at once.

        source: the file that variants replace; None: the one that the recipe names. trim: called with the
        name and the content of each file of flags; returns the flags that all variants get.
        Raises UsageError if the project has no source that can be built.
        """
        self._project = project
        self._timeout_s = timeout_s
        recipe = read_recipe(project)
        if recipe is None:
            raise UsageError(
                f"{project} has no source that another one could replace",
                hint="give code objects, or a project with a kernel_variant file",
            )
        self._source = source or recipe.source
        self.refuse, self.choose_flags = recipe.refuse, recipe.choose_flags
        self._copy = work / "project"
        copy_project(project, self._source, self._copy)
        self._flags = {each.name: each.read_bytes() for each in self._copy.glob(FLAG_FILES)}
        if trim is not None:
            self._flags = {name: trim(name, content) for name, content in self._flags.items()}
        self._make_text = make_response_text if recipe.is_clang else make_nvcc_response_text
        self._places: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(places):
            self._places.put(work / f"build-{number}")
        temporary = work / "compilers"
        temporary.mkdir()
        self._runner = MakeRunner(runs_python=recipe.source.endswith(".py"), temporary=temporary)

    def build(self, source: bytes, flags: Sequence[str]) -> bytes:
        """Return the code object of a source. Threads may call it at the same time.

        The source was not refused. flags: as ``choose_flags`` returned them.
        Raises NotBuiltError if it does not compile, BuildStoppedError if it was stopped.
        """
        with self._take_place() as place:
            (place / self._source).write_bytes(source)
            for name, given in self._flags.items():
                told = given + self.quote(flags)
                # make and the precompiled header look at the time of this file.
                if (place / name).read_bytes() != told:
                    (place / name).write_bytes(told)
            return self._make(place, "assemble" if self._source.endswith(".s") else "recompile")

    def quote(self, flags: Sequence[str]) -> bytes:
        """Return flags as the project's files of flags hold them."""
        return self._make_text(flags).encode(errors="surrogateescape")

    def build_with_launch(self, source: bytes) -> tuple[bytes, VariantShape | None]:
        """Like ``build`` without flags; also return the launch that make wrote beside the code object."""
        with self._take_place() as place:
            (place / self._source).write_bytes(source)
            code = self._make(place, "recompile")
            return code, find_variant_shape(
                next(place / name for name in VARIANTS if (place / name).is_file())
            )

    def stop(self) -> None:
        """End all builds that run, and begin none."""
        self._runner.stop()

    def _make(self, place: Path, target: str) -> bytes:
        for name in _BUILT:
            (place / name).unlink(missing_ok=True)
        made = self._runner.run(place, [target], self._timeout_s)
        built = next((place / name for name in VARIANTS if (place / name).is_file()), None)
        if not made.succeeded or built is None:
            raise NotBuiltError(_find_reason(made.said.replace(f"{place}/", "")))
        return built.read_bytes()

    @contextlib.contextmanager
    def _take_place(self) -> Iterator[Path]:
        place = self._places.get()
        try:
            if not place.is_dir():
                shutil.copytree(self._copy, place)
                if self._source.endswith(".s"):  # the instructions are put back into the captured code
                    (place / CAPTURE).symlink_to(self._project.resolve() / CAPTURE)
            yield place
        finally:
            self._places.put(place)


def _find_reason(said: str) -> str:
    """Find why a build failed: the compiler's first error, else the last line that is not make's own.

    That is what kc-generate's checks say, such as that the kernel is missing. Before it are commands.
    """
    own = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("make")]
    if any("error" in line for line in own) or not own:
        return find_first_error(said)
    return own[-1]


def read_source(path: Path) -> bytes:
    """Read a source. Raises NotBuiltError if it cannot be read."""
    try:
        return read_regular_file(path, _MAX_SOURCE_BYTES)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise NotBuiltError(f"cannot be read: {why}") from error
