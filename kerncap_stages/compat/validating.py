"""What ``Kerncap.validate`` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.cli.artifacts import find_captures, list_for_user
from kerncap_stages.compat.conversion import make_validation_result
from kerncap_stages.compat.projects import find_project, find_variant
from kerncap_stages.project.artifacts import find_kernel_name
from kerncap_stages.project.built import describe_changes, find_unbuilt_edits, warn_of_stale_variant
from kerncap_stages.project.folder import open_project
from kerncap_stages.project.variants import find_built_variant
from kerncap_stages.validate.engine import run_validate
from kerncap_stages.validate.request import JudgeSettings, make_settings

if TYPE_CHECKING:
    from os import PathLike

    from kerncap_stages.compat.results import ValidationResult

DEFAULT_ATOL, DEFAULT_RTOL = 1e-6, 1e-5


def validate_project(
    store_folder: Path | None, project: Path, hsaco: str | PathLike[str] | None, settings: JudgeSettings
) -> ValidationResult:
    """Judge the variant of a project for each of its captures."""
    folder = find_project(project)
    store, captures = find_captures(store_folder, str(folder.resolve()))
    variant = find_variant(folder, hsaco) or find_built_variant(folder)
    opened = open_project(folder)
    made = [run_validate(store, capture, variant, settings, project=opened) for capture in captures]
    unlisted = [list_for_user(store, digest, store_folder) for digest, _ in made]
    notes = [note for note in unlisted if note is not None]
    notes += [] if variant is None else warn_of_stale_variant(folder, variant)
    unbuilt = [] if variant is not None else find_unbuilt_edits(folder)
    changes = [describe_changes(folder, [name]) for name in unbuilt]
    notes += [f"{change} but not built: this verdict is on the captured kernel" for change in changes]
    names = [find_kernel_name(store, capture) for capture in captures]
    return make_validation_result(
        [manifest for _, manifest in made], [digest for digest, _ in made], names, notes
    )


def read_settings(
    tolerance: float | None,
    rtol: float | None,
    dtype: str | None,
    timeout_s: float,
    reference: str | PathLike[str] | None = None,
) -> JudgeSettings:
    """Apply the documented defaults: without bounds, bytes are compared; one bound gets a second."""
    given = None if reference is None else Path(reference)
    if tolerance is None and rtol is None:
        make_settings(None, None, None, dtype, reference=given)
        return JudgeSettings(timeout_s=timeout_s)
    return make_settings(
        DEFAULT_ATOL if tolerance is None else tolerance,
        DEFAULT_RTOL if rtol is None else rtol,
        None,
        dtype,
        timeout_s=timeout_s,
        reference=given,
    )
