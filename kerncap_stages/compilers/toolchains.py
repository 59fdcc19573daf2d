"""Chooses the family of compilers for a captured kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.compilers.cuda import CudaToolchain
from kerncap_stages.compilers.hip import HipToolchain
from kerncap_stages.manifests.kernel import CodeObjectFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kerncap_stages.compilers.toolchain import Toolchain
    from kerncap_stages.manifests.capture import Capture


def choose_toolchain(capture: Capture) -> Toolchain:
    """Choose the family of compilers by the format of the captured code object."""
    toolchains: Mapping[CodeObjectFormat, Toolchain] = {
        CodeObjectFormat.ELF_AMDGPU: HipToolchain(),
        CodeObjectFormat.CUBIN: CudaToolchain(),
        CodeObjectFormat.PTX: CudaToolchain(),
    }
    return toolchains[capture.kernel.code_object.format]
