"""Names the code object that a replay did not load and that a kernel called or jumped into."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kerncap_stages.manifests.capture import Capture


def name_foreign_code(capture: Capture, explanation: str | None) -> str | None:
    """Add to a fault's explanation which other code object the program had at the address."""
    for number in re.findall(r"0x[0-9a-f]+", explanation or ""):
        address = int(number, 16)
        for other in capture.loaded_code_objects[1:]:
            if 0 <= address - other.load_address < other.load_size_bytes:
                where = other.uri or "of unknown origin"
                return (
                    f"{explanation}; at {number} the program had another code object ({where}), which a "
                    "replay does not load: kernels that call into other code objects cannot be replayed"
                )
    return explanation
