"""pyelftools, without the debugger.

It imports ``pdb`` for a class that nobody uses, and ``pdb`` of Python 3.14 imports asyncio and ssl: a tenth
of what a verdict imports. While pyelftools is imported, an empty module stands in for it.
"""

from __future__ import annotations

import sys
from types import ModuleType

_is_loaded = "pdb" in sys.modules
if not _is_loaded:
    sys.modules["pdb"] = ModuleType("pdb")
try:
    from elftools.common.exceptions import DWARFError, ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection
finally:
    if not _is_loaded:
        del sys.modules["pdb"]

__all__ = ["DWARFError", "ELFError", "ELFFile", "SymbolTableSection"]
