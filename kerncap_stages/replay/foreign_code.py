"""Names the code that a replay does not load, where a kernel ran into its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kerncap_stages.manifests.capture import Capture


def with_foreign_code(capture: Capture, explanation: str | None) -> str | None:
    """Add to a fault's words what the program had at the address: the code of another code object."""
    for number in re.findall(r"0x[0-9a-f]+", explanation or ""):
        address = int(number, 16)
        for other in capture.loaded_code_objects[1:]:
            if 0 <= address - other.load_address < other.load_size_bytes:
                where = other.uri or "of no known origin"
                return (
                    f"{explanation}; at {number} the program had another code object ({where}), which is not "
                    "loaded: kernels that call functions of other code objects cannot be replayed"
                )
    return explanation
