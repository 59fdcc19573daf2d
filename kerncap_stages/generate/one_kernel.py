"""The script with which a HIP project compiles one kernel of a unit that has many."""

from __future__ import annotations

import re

import jinja2

from kerncap_stages.compilers.one_kernel import TO_BITCODE, TO_CODE, TOOLS
from kerncap_stages.generate.request import TEMPLATES

SCRIPT = "compile_kernel.sh"
# No character that a shell, grep or LLVM's response files interpret.
_LEVEL = re.compile(r"(-O([0-3sgz]|fast)?)?")
_PLAIN = re.compile(r"[\w.$]+", re.ASCII)


def make_compile_script(symbol: str, level: str) -> bytes | None:
    """Make the script; None for a symbol that it cannot name.

    symbol: without the mark of a unit. level: the optimisation level that the compiler's driver adds, or "".
    """
    if not _PLAIN.fullmatch(symbol) or not _LEVEL.fullmatch(level):
        return None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES / "hip"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - the symbol is checked above, all else is ours
    )
    values = {
        "tools": TOOLS,
        "to_bitcode": TO_BITCODE,
        "to_code": TO_CODE,
        "level": level,
        # find_symbol() ignores these marks, too.
        "pattern": rf"--func={re.escape(symbol)}((\.intern\.|\.static\.|__intern__|__static__)[0-9a-f]+)?",
    }
    return environment.get_template(f"{SCRIPT}.j2").render(values).encode()
