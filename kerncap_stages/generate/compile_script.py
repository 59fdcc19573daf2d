"""The script with which a HIP project compiles its unit in less time than the build takes."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.code.kernel_facts import UNIT_MARK
from kerncap_stages.compilers import (
    copied_text,
    declared_script,
    edited_script,
    header_text,
    inclusions,
    later_names,
)
from kerncap_stages.compilers.installed import OPTIMISATION
from kerncap_stages.compilers.one_kernel import TO_BITCODE, TO_CODE, TO_LIST, TOOLS
from kerncap_stages.compilers.precompiled import TO_INSTANTIATE, TO_PRECOMPILE, TO_USE
from kerncap_stages.generate.overlay import EDITABLE
from kerncap_stages.generate.templates import make_environment
from kerncap_stages.manifests.os_strings import to_os_string

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kerncap_stages.manifests.source import PrecompiledHeaders

SCRIPT = "compile_kernel.sh"
PRECOMPILED = "precompiled"
INSTANTIATED = "instantiated"
EDITED = ("edited", "edited_instantiated")  # made while a header is edited
# Modules that projects have a copy of, as files that import each other from their own folder.
_MODULES = (copied_text, declared_script, header_text, inclusions, later_names)
_PACKAGE = "kerncap_stages.compilers."
# No character that a shell, grep or LLVM's response files interpret.
_PLAIN = re.compile(r"[\w.$]+", re.ASCII)


@dataclass(frozen=True)
class CompileScript:
    """The script, with the header that it precompiles; what it does, and the files that it keeps."""

    files: Mapping[str, bytes]
    one_kernel: bool
    kept: str


def make_compile_script(
    symbol: str | None,
    level: str,
    headers: PrecompiledHeaders | None,
    placed: Mapping[str, str],
    digests: Mapping[str, str],
    target: str,
    kernel: str = "",
) -> CompileScript | None:
    """Make the script; None if it could save nothing.

    symbol: of the kernel that is compiled alone, without the mark of a unit; None for the whole unit.
    level: the optimisation level that the compiler's driver adds, or "".
    placed: path in the project, by original path.
    digests: of the files besides the kernel's own, by path in the project.
    target: templates are instantiated for this GPU. kernel: the kernel's name, with its arguments.
    """
    if symbol is not None and (not _PLAIN.fullmatch(symbol) or (level and not OPTIMISATION.fullmatch(level))):
        symbol = None
    if symbol is None and headers is None:
        return None
    instantiated = None if headers is None else headers.instantiated
    values = {
        "one_kernel": symbol is not None,
        "tools": TOOLS,
        "to_bitcode": TO_BITCODE,
        "to_list": TO_LIST,
        "to_code": TO_CODE,
        "level": level,
        "pattern": rf"--func={re.escape(symbol or '')}({UNIT_MARK})?",
        "precompiled": None if headers is None else PRECOMPILED,
        "instantiated": None if instantiated is None else INSTANTIATED,
        "declared": instantiated and instantiated.declared,
        "target": target,
        "editable": EDITABLE,
        "to_precompile": TO_PRECOMPILE,
        "to_instantiate": TO_INSTANTIATE,
        "to_use": TO_USE,
        "heads": [] if headers is None else list(_list_heads(headers, placed)),
        "others": sorted({name.partition("/")[0] for name in placed.values()} - {EDITABLE}),
    }
    script = make_environment("hip").get_template(f"{SCRIPT}.j2").render(values).encode()
    if headers is None:
        return CompileScript({SCRIPT: script}, one_kernel=True, kept="")
    files = {SCRIPT: script, f"{PRECOMPILED}.hpp": headers.text.encode(), **_copy_modules()}
    checked = dict(digests)
    kept = [PRECOMPILED, *EDITED]
    if symbol is None and "\n" not in kernel:
        files["headers/kernel.txt"] = kernel.encode(errors="surrogateescape")
    if instantiated is not None:
        header = (headers.text + instantiated.text).encode()
        checked[f"{INSTANTIATED}.hpp"] = hashlib.sha256(header).hexdigest()
        files[f"{INSTANTIATED}.hpp"] = header
        kept.append(INSTANTIATED)
    files["headers.sha256"] = "".join(f"{checked[name]}  {name}\n" for name in checked).encode()
    made = [f"{name}.{suffix}" for name in kept for suffix in ("pch", "pch.sha256", "command")]
    made += [*(f"{name}.hpp" for name in EDITED), "edited.json", "edited.described", "edited_headers"]
    return CompileScript(files, symbol is not None, " ".join(made))


def _copy_modules() -> dict[str, bytes]:
    """Return the modules that find out what can be precompiled while a header is edited."""
    names = {f"headers/{module.__name__.rpartition('.')[2]}.py": module for module in _MODULES}
    names["headers/__main__.py"] = edited_script
    return {
        name: Path(module.__file__ or "").read_bytes().replace(f"from {_PACKAGE}".encode(), b"from ")
        for name, module in names.items()
    }


def _list_heads(headers: PrecompiledHeaders, placed: Mapping[str, str]) -> Iterator[tuple[str, int, str]]:
    """Yield name, number of lines and digest of each file in the project whose first lines must stay."""
    for head in headers.heads:
        name = placed.get(to_os_string(head.path))
        if name is not None and head.line_count:
            yield name, head.line_count, str(head.digest)
