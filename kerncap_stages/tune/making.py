"""Makes variants of a project from configurations: its source with flags, or what its Python compiles.

The project is read once, at the start: edits while it is tuned count in the next run.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.building import BUILD_S, Builder, read_source
from kerncap_stages.evaluate.candidates import Candidate
from kerncap_stages.evaluate.recipe import read_recipe
from kerncap_stages.evaluate.regular import read_regular_file
from kerncap_stages.evaluate.snapshot import list_build_files
from kerncap_stages.replay.variant_shape import VariantShape, find_variant_shape
from kerncap_stages.tune.applied import read_applied
from kerncap_stages.tune.reproducer_script import NAME as SCRIPT
from kerncap_stages.tune.reproducer_script import ReproducerScript
from kerncap_stages.tune.space import CAPTURED, DEFINE, FLAGS, TRITON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.evaluate.recipe import Recipe
    from kerncap_stages.manifests.base import Dim3
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.tune.space import Configuration, Space

_MAX_FILE_BYTES = 256 << 20
VARIANT = "optimized.hsaco"  # the launch of all built code objects is in the file of this stem


def read_project_recipe(project: Path) -> Recipe:
    """Read how a project is built. Raises UsageError if it has no source."""
    recipe = read_recipe(project)
    if recipe is None or recipe.source.endswith(".ptx"):
        raise UsageError(
            f"{project} has no source to tune: C++, CUDA, Triton or AMD's assembly",
            hint="`kc-evaluate` judges code objects that something else made",
        )
    return recipe


class VariantMaker:
    """Makes a variant of each configuration. Close it at the end."""

    def __init__(
        self, project: Path, space: Space, captures: Sequence[Capture], work: Path, jobs: int
    ) -> None:
        """``work``: a folder of ours. ``jobs``: how many variants are compiled at once.

        Raises UsageError if the project cannot use the parameters.
        """
        recipe = read_project_recipe(project)
        self._space = space
        self._captured = _list_captured(captures[0])
        self._own = find_variant_shape(project / VARIANT) or VariantShape()
        self._script: ReproducerScript | None = None
        _require_one_launch(space, captures)
        if space.launch:
            space.require_launch(self._captured)
        if recipe.source.endswith(".py"):
            self._script = _open_script(project, space)
        else:
            _require_flags(recipe, space)
            self._source = read_source(project / recipe.source)
        source = SCRIPT if self._script is not None else None
        self.builder = Builder(project, work, jobs, BUILD_S, source, read_applied(project).remove_from)
        self.identity = _hash_project(project, self._script, space)

    def close(self) -> None:
        """End what is compiled."""
        self.builder.stop()

    def make(self, configuration: Configuration) -> Candidate:
        """Make the variant, which a worker compiles later. It is refused if its launch is impossible."""
        try:
            return self._make(configuration)
        except UsageError as error:
            return Candidate(configuration.name, Path(), problem=str(error))

    def _make(self, configuration: Configuration) -> Candidate:
        script = self.write_script(configuration)
        if script is not None:
            return Candidate(
                configuration.name,
                Path(SCRIPT),
                build=lambda: self.builder.build_with_launch(script.encode()),
            )
        given = self._space.choose_flags(configuration)
        flags = self.builder.choose_flags(given)
        launch = self.choose_launch(configuration)
        return Candidate(
            configuration.name,
            Path(),
            given,
            build=lambda: (self.builder.build(self._source, flags), launch),
        )

    def choose_flags(self, configuration: Configuration) -> bytes | None:
        """Return what a configuration adds to the project's files of flags; None if they do not count."""
        if self._script is not None:
            return None
        return self.builder.quote(self.builder.choose_flags(self._space.choose_flags(configuration)))

    def choose_launch(self, configuration: Configuration) -> VariantShape | None:
        """Return the launch; None: as captured. Of a Triton variant there is none.

        What the space leaves out is as in the file that is beside the project's own variant.
        """
        if self._script is not None:
            return None
        chosen = self._space.choose_launch(configuration, self._captured)
        grid, block, lds = (chosen.get(name) for name in ("grid", "block", "lds"))
        shape = VariantShape(
            _as_dim3(grid) or self._own.grid_blocks,
            _as_dim3(block) or self._own.block_work_items,
            self._own.dynamic_lds_bytes if lds is None else int(lds),  # type: ignore[arg-type]
        )
        return None if shape == VariantShape() else shape

    def write_script(self, configuration: Configuration) -> str | None:
        """Return ``reproducer.py`` for a configuration; None if the project has none."""
        if self._script is None:
            return None
        values = configuration.as_dict()
        chosen = {each.name: values[each.name] for each in self._space.find(TRITON)}
        grid = self._space.choose_launch(configuration, self._captured).get("grid")
        return self._script.replace(chosen, grid if isinstance(grid, list) else None)


def _list_captured(capture: Capture) -> dict[str, int]:
    launch = capture.launch
    numbers = (*launch.grid_blocks, *launch.block_work_items, launch.dynamic_lds_bytes)
    return dict(zip(CAPTURED, numbers, strict=True))


def _require_one_launch(space: Space, captures: Sequence[Capture]) -> None:
    shapes = {tuple(_list_captured(each).items()) for each in captures}
    if space.launch and len(shapes) > 1:
        raise UsageError(
            f"the project's captures have {len(shapes)} launches, and a variant has one for all of them",
            hint="leave out [launch], or tune one capture: kc-generate makes a project of it",
        )


def _open_script(project: Path, space: Space) -> ReproducerScript:
    script = ReproducerScript((project / SCRIPT).read_text())
    if space.find(DEFINE) or space.find(FLAGS):
        raise UsageError(
            "a Triton project has no flags and no -D values",
            hint="name its constants and options in [triton]",
        )
    other = sorted(set(space.launch) - {"grid"})
    if other:
        raise UsageError(
            f"launch.{other[0]}: Triton chooses that", hint="num_warps in [triton] gives the block"
        )
    script.require([each.name for each in space.find(TRITON)], grid="grid" in space.launch)
    return script


def _require_flags(recipe: Recipe, space: Space) -> None:
    """Raise UsageError for parameters that the project's compiler cannot get, before anything is built."""
    if space.find(TRITON):
        raise UsageError(
            f"the project's source is {recipe.source}, which Triton does not compile",
            hint="-D values are in [define]",
        )
    with_flags = [*space.find(DEFINE), *space.find(FLAGS)]
    if recipe.source.endswith(".s") and with_flags:
        raise UsageError(f"{with_flags[0].name}: assembly is assembled without flags", hint="use [launch]")
    first = {each.name: each.values[0] for each in space.parameters}
    for each in with_flags:
        for value in each.values:
            values = tuple({**first, each.name: value}.values())
            recipe.choose_flags(space.choose_flags(space.make(values)))


def _hash_project(project: Path, script: ReproducerScript | None, space: Space) -> str:
    """Return a digest of all that a build reads in the project, but for what a winner changes there."""
    digest = hashlib.sha256()
    applied = read_applied(project)
    for below in sorted(list_build_files(project)):
        if "__pycache__" in below.parts:  # Python writes it when the project is built
            continue
        try:
            content = read_regular_file(project / below, _MAX_FILE_BYTES)
        except (OSError, ValueError):
            continue
        content = applied.remove_from(str(below), content)
        if script is not None and str(below) == SCRIPT:
            first = {each.name: each.values[0] for each in space.find(TRITON)}
            content = script.replace(first, [1, 1, 1] if "grid" in space.launch else None).encode()
        digest.update(f"{below}\0{len(content)}\0".encode(errors="surrogateescape") + content)
    own = find_variant_shape(project / VARIANT)
    left = {} if own is None else asdict(own)
    given = {"grid": "grid_blocks", "block": "block_work_items", "lds": "dynamic_lds_bytes"}
    for name in space.launch:
        left.pop(given[name], None)
    if script is None:
        kept = {name: value for name, value in left.items() if value is not None}
        digest.update(json.dumps(kept, sort_keys=True).encode())
    return digest.hexdigest()


def _as_dim3(given: list[int] | int | None) -> Dim3 | None:
    if not isinstance(given, list):
        return None
    x, y, z = given
    return (x, y, z)
