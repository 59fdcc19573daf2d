"""Which kind of project a captured kernel takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.generate.hip_project import HipProject
from kerncap_stages.generate.nvcc_project import NvccProject
from kerncap_stages.manifests.kernel import CodeObjectFormat

if TYPE_CHECKING:
    from kerncap_stages.generate.kind import ProjectKind
    from kerncap_stages.manifests.capture import Capture


def kind_of(capture: Capture) -> ProjectKind:
    """The kind of project that a captured kernel takes."""
    is_amd = capture.kernel.code_object.format is CodeObjectFormat.ELF_AMDGPU
    return HipProject() if is_amd else NvccProject()
