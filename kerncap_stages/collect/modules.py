"""The code objects and kernels that one process of the program has loaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages._native import demangle
from kerncap_stages.code.kernel_facts import strip_unit
from kerncap_stages.collect import protocol
from kerncap_stages.collect.wire import ProtocolError

if TYPE_CHECKING:
    from pathlib import Path

_MAX_KERNELS = 1 << 20


@dataclass
class LoadedKernel:
    """A kernel, with the number that the capture library gave it."""

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
    load_address: int
    load_bytes: int
    uri: str
    checksum: int = 0
    kernels: list[LoadedKernel] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    code: Path | None = None
    present: bool = True


class Modules:
    """The modules of one process, by the numbers that the capture library gave them."""

    def __init__(self) -> None:
        self.by_number: dict[int, Module] = {}
        self.kernels: dict[int, LoadedKernel] = {}

    def get(self, number: int) -> Module:
        """Return a module by number. Raises ProtocolError if the capture library never announced it."""
        if number not in self.by_number:
            raise ProtocolError(f"the capture library refers to module {number}, which it never announced")
        return self.by_number[number]

    def handle(self, message: protocol.UpMessage) -> bool:
        """Handle a message if it is about modules; returns whether it is."""
        match message:
            case protocol.Module():
                self._add(message)
            case protocol.Kernels():
                self._add_kernels(message)
            case protocol.Variables():
                module = self.get(message.module)
                module.variables += [_make_variable(sent) for sent in message.variables]
            case protocol.ModuleGone():
                # Its memory may be reused from now on.
                self.get(message.module).present = False
            case _:
                return False
        return True

    def _add(self, sent: protocol.Module) -> None:
        self.by_number[sent.module] = Module(
            sent.module, sent.device, sent.load_address, sent.load_bytes, sent.uri, sent.checksum
        )

    def _add_kernels(self, message: protocol.Kernels) -> None:
        module = self.get(message.module)
        for sent in message.kernels:
            mangled = sent.name.removesuffix(".kd")
            kernel = LoadedKernel(sent.kernel, mangled, demangle(strip_unit(mangled)), module.number)
            module.kernels.append(kernel)
            if len(self.kernels) < _MAX_KERNELS:
                self.kernels[sent.kernel] = kernel


def _make_variable(sent: protocol.Variable) -> Variable:
    is_const = bool(sent.flags & protocol.VariableFlag.IS_CONST)
    return Variable(sent.address, sent.size_bytes, is_const, sent.name)
