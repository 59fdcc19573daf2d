"""Runs a program with variants in the place of its kernels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kerncap_stages.code.kernel_facts import find_symbol
from kerncap_stages.collect import protocol
from kerncap_stages.collect.connection import LibrarySettings
from kerncap_stages.collect.facts import Facts
from kerncap_stages.collect.modules import Modules
from kerncap_stages.collect.protocol import MAX_RULES, Mode, ReplaceOutcome
from kerncap_stages.collect.selection import make_answers
from kerncap_stages.collect.server import Collector
from kerncap_stages.collect.wire import ProtocolError
from kerncap_stages.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kerncap_stages.collect.connection import Connection
    from kerncap_stages.collect.left_behind import LeftBehind
    from kerncap_stages.collect.program import ProgramSpec, RunningProgram
    from kerncap_stages.manifests.base import Dim3

_MAX_WORDS = 2000  # of one message to the library, which has at most 48 KiB


@dataclass(frozen=True)
class Replacement:
    """What runs in the place of a kernel, and in which launches.

    captured: the captured code object; None: the kernel is replaced whatever code object has it.
    grid_blocks, block_work_items: the launches that the variant is for; None: all.
    launch: how the variant is launched where that is not as the program launches the kernel: the grid in
    blocks, the block, and the dynamic LDS. patches, on CUDA variables: what connects it with the program's
    variables.
    """

    symbol: str
    variant: str
    variant_symbol: str
    captured: str | None
    max_block_work_items: int | None = None
    required_block: Dim3 | None = None
    grid_blocks: Dim3 | None = None
    block_work_items: Dim3 | None = None
    launch: tuple[Dim3, Dim3, int] | None = None
    patches: tuple[protocol.Patch, ...] = ()
    variables: tuple[protocol.ProgramVariable, ...] = ()

    @property
    def rule(self) -> protocol.Rule:
        """Which launches the variant is for."""
        return protocol.Rule(
            grid_blocks=self.grid_blocks or (0, 0, 0), block_work_items=self.block_work_items or (0, 0, 0)
        )

    def make_messages(self, rule: int) -> Iterator[protocol.Replacement | protocol.ProgramVariable]:
        """Make the messages that tell a capture library."""
        yield self._make_message(rule)
        for each in self.variables:
            for begin in range(0, max(1, len(each.words)), _MAX_WORDS):
                yield replace(each, rule=rule, words=each.words[begin : begin + _MAX_WORDS])

    def _make_message(self, rule: int) -> protocol.Replacement:
        grid, block, lds_bytes = self.launch or ((0, 0, 0), (0, 0, 0), protocol.NO_BYTES)
        return protocol.Replacement(
            rule=rule,
            variant=self.variant,
            symbol=self.variant_symbol,
            captured=self.captured or "",
            max_block_work_items=self.max_block_work_items or 0,
            required_block=self.required_block or (0, 0, 0),
            grid_blocks=grid,
            block_work_items=block,
            dynamic_group_bytes=lds_bytes,
            patches=self.patches,
        )

    def choose(self, symbols: Sequence[str]) -> int | None:
        """Choose the kernel of a module that is replaced, by its index; None if there is none.

        In other code than the captured one, marks of units in the symbol may differ.
        """
        if self.captured is not None:
            return symbols.index(self.symbol) if self.symbol in symbols else None
        found = find_symbol(self.symbol, symbols)
        return None if found is None else symbols.index(found)


@dataclass
class Replaced:
    """What became of one kernel in one process."""

    dispatches: int = 0  # in which the variant ran
    kept: int = 0  # in which the captured kernel ran: the variant is not for their launch, or failed (CUDA)
    other_shape: tuple[Dim3, Dim3] | None = None  # of the latest of these: the grid in blocks, the block
    loaded: int = 0  # code objects in which it was replaced
    other_code: int = 0  # code objects that have a kernel of this name, and are not the captured one
    failures: list[str] = field(default_factory=list)


@dataclass
class ProcessReport:
    """What became of the kernels in one process."""

    process_id: int
    kernels: list[Replaced]
    lost: bool = False  # the process closed its connection and went on
    failure: str | None = None  # why nothing of it can be replaced
    is_software: bool = False  # it ran on the software GPU
    notes: list[str] = field(default_factory=list)  # the capture library's warnings
    loaded_names: dict[str, str] = field(default_factory=dict)  # of all its kernels: demangled, by symbol


@dataclass(frozen=True)
class ReplacedRun:
    """A run of the program."""

    program: RunningProgram
    processes: tuple[ProcessReport, ...]
    wall_ns: int
    left_behind: tuple[LeftBehind, ...] = ()  # processes that went on unwatched

    @property
    def dispatches(self) -> int:
        """In how many dispatches a variant ran."""
        return sum(kernel.dispatches for process in self.processes for kernel in process.kernels)

    def add_up(self, kernel: int) -> Replaced:
        """Add up what became of one kernel in all processes."""
        total = Replaced()
        for each in (process.kernels[kernel] for process in self.processes):
            total.dispatches += each.dispatches
            total.kept += each.kept
            total.other_shape = each.other_shape or total.other_shape
            total.loaded += each.loaded
            total.other_code += each.other_code
            total.failures += each.failures
        return total


class ReplaceSession:
    """The Session of kc-run: answers which kernels are replaced, and hears what became of them."""

    def __init__(
        self,
        connection: Connection,
        emit: Callable[[Any], None],
        replacements: Sequence[Replacement],
    ) -> None:
        self._connection = connection
        self._emit = emit
        self._replacements = replacements
        self._modules = Modules()
        self._facts = Facts()
        self._replaced: set[tuple[int, int]] = set()  # modules, and the rule
        self._report = ProcessReport(connection.process_id, [Replaced() for _ in replacements])

    def handle(self, message: protocol.UpMessage) -> None:
        """Handle a message."""
        match message:
            case protocol.Facts():
                self._facts.add(message)
            case protocol.Note():
                self._report.notes.append(message.text)
            case protocol.Failed():
                self._report.failure = message.reason
            case protocol.ModuleEnd():
                self._select(message.module)
            case protocol.Replaced():
                self._hear(message)
            case _ if not self._modules.handle(message):
                raise ProtocolError(
                    f"the capture library sent {message.NUMBER.name}, which kc-run does not expect"
                )

    def _select(self, number: int) -> None:
        kernels = self._modules.get(number).kernels
        symbols = [kernel.mangled for kernel in kernels]
        matches = [
            (kernels[chosen].number, rule)
            for rule, replacement in enumerate(self._replacements)
            if (chosen := replacement.choose(symbols)) is not None
        ]
        for answer in make_answers(number, want_code=False, matches=matches):
            self._connection.send(answer)

    def _hear(self, message: protocol.Replaced) -> None:
        if message.rule >= len(self._replacements):
            raise ProtocolError(f"the capture library names rule {message.rule}, which does not exist")
        kernel = self._report.kernels[message.rule]
        match message.outcome:
            case ReplaceOutcome.REPLACED:
                self._replaced.add((message.module, message.rule))
            case ReplaceOutcome.OTHER_CODE:
                kernel.other_code += 1
            case ReplaceOutcome.FAILED:  # on CUDA at the first launch, after the module was accepted
                self._replaced.discard((message.module, message.rule))
                kernel.failures.append(message.reason)
        kernel.loaded = sum(rule == message.rule for _, rule in self._replaced)

    def do_pending_work(self) -> None:
        """Do nothing: all messages are handled at once."""

    def close(self) -> None:
        """Read the counters of the process, and emit its report."""
        shared = self._connection.shared
        for rule, kernel in enumerate(self._report.kernels):
            kernel.dispatches = shared.count_replaced(rule)
            kernel.kept = shared.count_kept(rule)
            kernel.other_shape = shared.read_other_shape(rule)
        kernels = self._modules.kernels.values()
        self._report.loaded_names = {kernel.mangled: kernel.demangled for kernel in kernels}
        self._report.is_software = self._facts.is_software
        self._report.lost = self._connection.is_lost()
        self._emit(self._report)


def run_with_variants(
    spec: ProgramSpec,
    replacements: Sequence[Replacement],
    warn: Callable[[str], None],
    on_start: Callable[[RunningProgram], None] = lambda _program: None,
    *,
    with_cuda: bool = True,
) -> ReplacedRun:
    """Run a program with variants in the place of its kernels, and wait for all its processes.

    Without replacements, the program runs with the capture library and its own kernels. with_cuda: whether
    the CUDA driver loads that.
    """
    if len(replacements) > MAX_RULES:
        raise UsageError(f"one run replaces at most {MAX_RULES} kernels", hint="use several runs")
    settings = LibrarySettings(
        Mode.REPLACE,
        rules=[each.rule for each in replacements],
        replacements=[
            message for rule, each in enumerate(replacements) for message in each.make_messages(rule)
        ],
        with_trials=True,
        with_cuda=with_cuda,
    )
    collector = Collector(
        spec, settings, lambda connection, emit: ReplaceSession(connection, emit, replacements)
    )
    reports: list[ProcessReport] = []
    try:
        on_start(collector.program)
        reports += [event for event in collector.read_events() if isinstance(event, ProcessReport)]
    finally:
        collector.close()
        for text in collector.list_final_warnings():
            warn(text)
    program = collector.program
    ended_ns = program.ended_ns or program.started_ns
    wall_ns = ended_ns - program.started_ns
    return ReplacedRun(program, tuple(reports), wall_ns, tuple(collector.left_behind))
