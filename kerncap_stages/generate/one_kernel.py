"""The script with which a HIP project compiles one kernel of a unit that has many."""

from __future__ import annotations

import re

from kerncap_stages.code.kernel_facts import UNIT_MARK
from kerncap_stages.compilers.installed import OPTIMISATION
from kerncap_stages.compilers.one_kernel import TO_BITCODE, TO_CODE, TOOLS
from kerncap_stages.generate.templates import make_environment

SCRIPT = "compile_kernel.sh"
# No character that a shell, grep or LLVM's response files interpret.
_PLAIN = re.compile(r"[\w.$]+", re.ASCII)


def make_compile_script(symbol: str, level: str) -> bytes | None:
    """Make the script; None for a symbol that it cannot name.

    symbol: without the mark of a unit. level: the optimisation level that the compiler's driver adds, or "".
    """
    if not _PLAIN.fullmatch(symbol) or (level and not OPTIMISATION.fullmatch(level)):
        return None
    values = {
        "tools": TOOLS,
        "to_bitcode": TO_BITCODE,
        "to_code": TO_CODE,
        "level": level,
        "pattern": rf"--func={re.escape(symbol)}({UNIT_MARK})?",
    }
    return make_environment("hip").get_template(f"{SCRIPT}.j2").render(values).encode()
