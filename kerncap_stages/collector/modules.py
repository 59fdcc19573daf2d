"""The code objects and kernels that one process of the program has loaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages.collector.protocol import ProtocolError, Reader, Up

if TYPE_CHECKING:
    from pathlib import Path

_MOST_KERNELS = 1 << 20


@dataclass
class LoadedKernel:
    """A kernel under the number that the capture library gave it."""

    number: int
    mangled: str
    demangled: str
    module: int


@dataclass
class Variable:
    """A module variable."""

    address: int
    size_bytes: int
    is_const: bool
    name: str


@dataclass
class Module:
    """A code object in a device's memory."""

    number: int
    device: int
    code_bytes: int
    load_address: int
    load_bytes: int
    uri: str
    kernels: list[LoadedKernel] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    code: Path | None = None
    present: bool = True


class Modules:
    """Book-keeping of MODULE, KERNELS, VARIABLES and MODULE_GONE."""

    def __init__(self) -> None:
        self.by_number: dict[int, Module] = {}
        self.kernels: dict[int, LoadedKernel] = {}

    def module(self, number: int) -> Module:
        """Return a module that was announced."""
        if number not in self.by_number:
            raise ProtocolError(f"the capture library speaks of module {number}, which it never announced")
        return self.by_number[number]

    def hear(self, kind: Up, reader: Reader) -> bool:
        """Take in a message about modules; returns whether it is one."""
        match kind:
            case Up.MODULE:
                self._hear_module(reader)
            case Up.KERNELS:
                self._hear_kernels(reader)
            case Up.VARIABLES:
                self._hear_variables(reader)
            case Up.MODULE_GONE:
                # Its memory may be used for something else now.
                self.module(reader.u64()).present = False
            case _:
                return False
        return True

    def _hear_module(self, reader: Reader) -> None:
        found = Module(reader.u64(), reader.u32(), reader.u64(), reader.u64(), reader.u64(), reader.text())
        self.by_number[found.number] = found

    def _hear_kernels(self, reader: Reader) -> None:
        from kerncap_stages._native import demangle
        from kerncap_stages.kernel_facts import without_unit

        module = self.module(reader.u64())
        for _ in range(reader.u32()):
            number = reader.u32()
            mangled = reader.text().removesuffix(".kd")
            kernel = LoadedKernel(number, mangled, demangle(without_unit(mangled)), module.number)
            module.kernels.append(kernel)
            if len(self.kernels) < _MOST_KERNELS:
                self.kernels[number] = kernel

    def _hear_variables(self, reader: Reader) -> None:
        module = self.module(reader.u64())
        for _ in range(reader.u32()):
            variable = Variable(reader.u64(), reader.u64(), bool(reader.u32() & 1), reader.text())
            module.variables.append(variable)
