"""Chooses the kind of project for a captured kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.generate.hip_project import HipProject
from kerncap_stages.generate.nvcc_project import NvccProject
from kerncap_stages.manifests.kernel import CodeObjectFormat

if TYPE_CHECKING:
    from kerncap_stages.generate.kind import InstructionsKind
    from kerncap_stages.manifests.capture import Capture


def choose_kind(capture: Capture) -> InstructionsKind:
    """Choose the kind of project by the format of the captured code object."""
    is_amd = capture.kernel.code_object.format is CodeObjectFormat.ELF_AMDGPU
    return HipProject() if is_amd else NvccProject()
