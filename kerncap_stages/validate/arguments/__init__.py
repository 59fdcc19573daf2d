"""Reads a kernel's arguments: which memory they point to, and of which type its elements are.

Below ``validate`` and ``validate.perturb``, which both use it.
"""

from kerncap_stages.validate.arguments.addresses import explain_addresses
from kerncap_stages.validate.arguments.parts import Pointer, Span, cut_region
from kerncap_stages.validate.arguments.pointers import find_pointers
from kerncap_stages.validate.arguments.windows import CHUNK_BYTES, Window, choose_window

__all__ = [
    "CHUNK_BYTES",
    "Pointer",
    "Span",
    "Window",
    "choose_window",
    "cut_region",
    "explain_addresses",
    "find_pointers",
]
