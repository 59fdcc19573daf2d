"""Projects of Triton kernels: Python that compiles the kernel again, without the program that launched it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.errors import Refused
from kerncap_stages.generate.kind import Build
from kerncap_stages.generate.quoting import choose_compiler
from kerncap_stages.generate.templates import make_environment
from kerncap_stages.generate.triton_call import MEMORY, write_call
from kerncap_stages.generate.triton_modules import KERNEL_MODULE, TritonModules, get_name
from kerncap_stages.generate.triton_values import HINT, write_import, write_type, write_value
from kerncap_stages.manifests.kernel import CodeObjectFormat
from kerncap_stages.manifests.os_strings import to_os_string
from kerncap_stages.replay.variant_shape import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.source import CompileCommand, PrecompiledHeaders
    from kerncap_stages.manifests.triton import TritonKernel, TritonValue

COMPILE = "reproducer.py"
# Found anew by the compiler that the project uses: paths of its own files.
_FOUND_ANEW = frozenset({"extern_libs"})
_PYTHON = re.compile(r"(python|pypy)[0-9.]*t?")


@dataclass(frozen=True)
class TritonProject:
    """See ``kind.ProjectKind``.

    modules: the project's Python modules, by their paths. script: compiles them.
    """

    capture: Capture
    modules: Mapping[str, bytes]
    script: bytes
    template: str = "triton"
    editable: str = f"{KERNEL_MODULE}.py"
    assembly: str = ""

    @property
    def code(self) -> str:
        """The captured code object."""
        return f"capture/kernel.{_choose_suffix(self.capture)}"

    @property
    def built(self) -> str:
        """The code object that `make recompile` builds."""
        return _name_built(self.capture)

    def build(
        self,
        capture: Capture,
        originals: Mapping[str, str],  # noqa: ARG002 - the modules hold what is needed of them
        command: CompileCommand | None,  # noqa: ARG002
        linked: Sequence[CompileCommand] = (),  # noqa: ARG002
        *,
        one_kernel: bool = False,  # noqa: ARG002
        precompiled: PrecompiledHeaders | None = None,  # noqa: ARG002
    ) -> Build:
        """Add the script that compiles the modules as the program did."""
        triton = capture.kernel.triton
        assert triton is not None
        python = to_os_string(triton.python or "")
        values = {
            "python": choose_compiler(python, is_python, "python3"),
            "shape_file": _find_shape_file(capture),
            "inputs": sorted([*self.modules, COMPILE]),
        }
        memory = make_environment("triton").get_template(f"{MEMORY}.j2").render().encode()
        return Build({}, {**self.modules, COMPILE: self.script, MEMORY: memory}, values)


def make_triton_project(capture: Capture) -> TritonProject | None:
    """Return the project of a kernel that Triton compiled; None for another kernel.

    Raises Refused if what was recorded is not enough to compile the kernel again.
    """
    triton = capture.kernel.triton
    if triton is None:
        return None
    if triton.dialect == "gluon":
        raise Refused("kernels in Gluon cannot be compiled alone yet", hint=HINT)
    modules = TritonModules(triton, capture.kernel.mangled_name)
    return TritonProject(capture, modules.render(), _make_script(capture, triton, modules))


def _choose_suffix(capture: Capture) -> str:
    return "hsaco" if capture.kernel.code_object.format is CodeObjectFormat.ELF_AMDGPU else "cubin"


def _name_built(capture: Capture) -> str:
    return f"candidate.{_choose_suffix(capture)}"


def _find_shape_file(capture: Capture) -> str:
    """Return the name of the file that says how the built code object is launched."""
    return Path(_name_built(capture)).with_suffix(SUFFIX).name


def is_python(name: str) -> bool:
    """Whether a command's name is that of a Python. A target of the project runs it."""
    return _PYTHON.fullmatch(Path(name).name) is not None


def _make_script(capture: Capture, triton: TritonKernel, modules: TritonModules) -> bytes:
    """Write the script. Raises Refused for what it cannot write."""
    launch, call = capture.launch, write_call(capture)
    constants, imports = _write_constants(triton.constexprs, modules)
    values = {
        "function": get_name(triton.functions[0]),
        "imports": imports,
        "constants": constants,
        "options": {
            value.name: write_value(value)
            for value in triton.options
            if value.name not in _FOUND_ANEW and "." not in value.type_name
        },
        "num_ctas": next((write_value(each) for each in triton.options if each.name == "num_ctas"), "1"),
        "environment": dict(triton.environment),
        "arguments": call.arguments,
        "regions": call.regions,
        "not_run": call.not_run,
        "signature": {name: write_type(text) for name, text in triton.signature},
        "specialization": triton.specialization,
        "target": triton.target,
        "triton_folder": to_os_string(triton.triton_folder or ""),
        "version": triton.triton_version,
        "grid": launch.grid_blocks,
        "symbol": capture.kernel.mangled_name,
        "built": _name_built(capture),
        "shape_file": _find_shape_file(capture),
    }
    template = make_environment("triton").get_template(f"{COMPILE}.j2")
    return template.render(values).encode(errors="surrogateescape")


def _write_constants(
    constexprs: Iterable[TritonValue], modules: TritonModules
) -> tuple[dict[str, str], list[str]]:
    """Write compile-time constants as expressions, and the imports of those that are functions."""
    written: dict[str, str] = {}
    imports: list[str] = []
    for number, value in enumerate(constexprs, start=1):
        local = f"CONSTANT_{number}"
        if value.type_name == "function":
            module, name = modules.find(value)
            imports.append(f"from {module} import {name} as {local}")
            written[value.name] = local
        elif value.type_name == "import":
            imports.append(write_import(value.text, local))
            written[value.name] = local
        else:
            written[value.name] = write_value(value)
    return written, imports
