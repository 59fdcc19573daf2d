"""Which family of compilers a captured kernel came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.compilers.cuda import CudaToolchain
from kerncap_stages.compilers.hip import HipToolchain
from kerncap_stages.manifests.kernel import CodeObjectFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kerncap_stages.compilers.toolchain import Toolchain
    from kerncap_stages.manifests.capture import Capture


def toolchain_of(capture: Capture) -> Toolchain:
    """The compilers that a captured kernel can have come from."""
    toolchains: Mapping[CodeObjectFormat, Toolchain] = {
        CodeObjectFormat.ELF_AMDGPU: HipToolchain(),
        CodeObjectFormat.CUBIN: CudaToolchain(),
        CodeObjectFormat.PTX: CudaToolchain(),
    }
    return toolchains[capture.kernel.code_object.format]
