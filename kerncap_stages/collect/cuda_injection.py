"""What a program's environment has to say for the CUDA driver to load our library into it.

The driver loads what CUDA_INJECTION64_PATH names when it starts (``cuInit``), also in programs that link the
runtime statically. CUPTI is not on every loader's path, so the places where it may be go along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError
from kerncap_stages.machine.cupti import CUPTI, cupti_paths
from kerncap_stages.machine.native_paths import native_file

if TYPE_CHECKING:
    from collections.abc import Mapping

INJECTION = "CUDA_INJECTION64_PATH"


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """Return what to add to a program's environment ``base``.

    Raises UsageError when another tool is to be injected, DeviceError where the back end was left out.
    """
    library = native_file("libkerncap_cuda.so")
    if base.get(INJECTION, str(library)) != str(library):
        raise UsageError(
            f"{INJECTION} already names another tool: {base[INJECTION]}",
            hint=f"run without it: env -u {INJECTION} kc-capture ...; the driver loads one such library",
        )
    added = {INJECTION: str(library)}
    if paths := cupti_paths(base):
        added[CUPTI] = paths
    return added
