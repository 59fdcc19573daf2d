"""Makes the environment in which the CUDA driver loads the capture library into a program.

The driver loads the library that CUDA_INJECTION64_PATH names in ``cuInit``, also in programs that link the
CUDA runtime statically. CUPTI may not be on the loader's path, so another variable lists the folders where it
may be.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError
from kerncap_stages.machine.cupti import CUPTI, choose_cupti_paths
from kerncap_stages.machine.native_paths import find_native_file

if TYPE_CHECKING:
    from collections.abc import Mapping

INJECTION = "CUDA_INJECTION64_PATH"


def make_environment(base: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add to a program's environment ``base``.

    Raises UsageError if ``base`` injects another tool, DeviceError if the CUDA back end is not installed.
    """
    library = find_native_file("libkerncap_cuda.so")
    if base.get(INJECTION, str(library)) != str(library):
        stage = os.path.basename(sys.argv[0])  # noqa: PTH119 - as the program names itself everywhere
        raise UsageError(
            f"{INJECTION} already names another tool: {base[INJECTION]}",
            hint=f"run without it: env -u {INJECTION} {stage} ...; the driver loads only one library",
        )
    added = {INJECTION: str(library)}
    if paths := choose_cupti_paths(base):
        added[CUPTI] = paths
    return added
