"""Handles the messages of one process under capture: its modules, kernel selections and captures."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from kerncap_stages.collect import protocol
from kerncap_stages.collect.capture_builder import CaptureBuilder
from kerncap_stages.collect.capture_events import LOST, Captured, CaptureFailed, ProcessSummary, Warned
from kerncap_stages.collect.capture_streams import Piece, Stream
from kerncap_stages.collect.facts import Facts
from kerncap_stages.collect.modules import Modules
from kerncap_stages.collect.protocol import FailureCode, StreamKind
from kerncap_stages.collect.selection import KernelRule, find_first_rule, make_answers
from kerncap_stages.collect.triton_configurations import WantedConfiguration
from kerncap_stages.collect.wire import ProtocolError
from kerncap_stages.errors import KerncapError, Refused, StoreError
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.manifests import describe_first_fault
from kerncap_stages.manifests.capture import Reach
from kerncap_stages.manifests.environment import Backend

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerncap_stages.collect.capture_builder import CaptureContext
    from kerncap_stages.collect.connection import Connection
    from kerncap_stages.collect.modules import Module


_OTHERS = "capture another dispatch of the kernel, or another kernel"
_FILES = {StreamKind.CODE, StreamKind.IMAGE}


class CaptureSession:
    """The Session of kc-capture."""

    def __init__(
        self,
        connection: Connection,
        emit: Callable[[Any], None],
        rules: list[KernelRule],
        context: CaptureContext,
    ) -> None:
        self._connection = connection
        self._emit = emit
        self._rules = rules
        if connection.backend == Backend.CUDA and context.reach is Reach.REACHABLE:
            context = replace(context, reach=Reach.ALL)
            text = "--reachable has no effect on CUDA captures: all memory is captured"
            emit(Warned(connection.process_id, text))
        self.context = context
        self._facts = Facts()
        self._modules = Modules()
        self._builders: dict[int, CaptureBuilder] = {}
        self._streams: dict[int, Stream] = {}
        self._pieces: deque[Piece] = deque()  # oldest first
        self._folder = TemporaryFolder("code")
        self._configuration = WantedConfiguration(context.configuration, context.find_configuration)

    def handle(self, message: protocol.UpMessage) -> None:
        """Handle a message. Raises ProtocolError if the protocol does not allow it here."""
        if self._modules.handle(message):
            return
        match message:
            case protocol.Facts():
                self._facts.add(message)
            case protocol.ModuleEnd():
                self._select_kernels(message.module)
            case protocol.Capture():
                self._begin_capture(message)
            case protocol.Regions():
                if (builder := self._builders.get(message.capture)) is not None:
                    builder.add_regions(message.regions)
            case protocol.Open():
                self._open_stream(message)
            case protocol.Data():
                self._take_data(message)
            case protocol.Zero() | protocol.Same():
                self._take_repeated(message)
            case protocol.Vanished():
                self._leave_out(message.stream)
            case protocol.Close():
                self._close_stream(message.stream)
            case protocol.Ready():
                if (builder := self._builders.get(message.capture)) is not None:
                    builder.ready = message
            case protocol.Done():
                self._finish_capture(message)
            case protocol.Failed():
                self._take_failure(message)
            case protocol.Note():
                self._emit(Warned(self._connection.process_id, message.text))
            case _:
                raise ProtocolError(
                    f"the capture library sent {message.NUMBER.name}, which a capture does not expect"
                )

    def do_pending_work(self) -> None:
        """Free all staging slots: the capture library may be waiting for one."""
        self._finish_pieces()

    def close(self) -> None:
        """Abandon unfinished captures, and emit a summary of the process."""
        self._finish_pieces()
        lost = self._connection.is_lost()
        reason = f"{LOST if lost else 'the process ended'} in the middle of a capture"
        for builder in self._builders.values():
            if not self._keep_unended(builder, reason):
                process = self._connection.process_id
                self._emit(CaptureFailed(process, reason, process_ended=not lost, lost=lost))
                builder.abandon()
        shared, rules = self._connection.shared, range(len(self._rules))
        self._emit(
            ProcessSummary(
                process_id=self._connection.process_id,
                backend=self._connection.backend,
                kernels={kernel.demangled for kernel in self._modules.kernels.values()},
                matched=[shared.count_matched(rule) for rule in rules],
                trials=sum(shared.count_trials(rule) for rule in rules),
                other_shapes=[shape for rule in rules if (shape := shared.read_other_shape(rule))],
                other_configurations=self._configuration.others,
                has_configuration=self._configuration.is_loaded,
                dispatches=shared.dispatches,
                uninterceptable_queues=shared.uninterceptable_queues,
                unlisted=shared.unlisted,
                lost=lost,
            )
        )
        self._folder.remove()

    def _select_kernels(self, number: int) -> None:
        """Tell the capture library which kernels of a module are wanted."""
        module = self._modules.get(number)
        matches = []
        for kernel in module.kernels:
            rule = find_first_rule(self._rules, kernel.mangled, kernel.demangled)
            if rule is not None and self._configuration.fits(kernel.mangled, module.checksum):
                matches.append((kernel.number, rule))
        if matches and self._facts.xnack:
            matches = []
            self._refuse_xnack()
        for message in make_answers(number, bool(matches), matches):
            self._connection.send(message)

    def _refuse_xnack(self) -> None:
        reason = (
            "XNACK is on, so the kernel can reach all memory of the process, which a capture cannot hold; "
            "set HSA_XNACK=0 if the program runs without XNACK"
        )
        self._emit(CaptureFailed(self._connection.process_id, reason, FailureCode.UNSUPPORTED_MEMORY))

    def _begin_capture(self, sent: protocol.Capture) -> None:
        process_id = self._connection.process_id
        try:
            builder = CaptureBuilder(sent, self._modules, self._rules, self.context, process_id)
        except (StoreError, OSError) as error:
            self._report_error(error)
            return
        self._builders[builder.number] = builder

    def _open_stream(self, sent: protocol.Open) -> None:
        builder, kind = self._builders.get(sent.capture), sent.kind
        stream = Stream(kind, builder, sent.index, sent.size_bytes)
        self._streams[sent.stream] = stream
        try:
            if kind is StreamKind.CODE:
                path = self._folder.path / f"{stream.index}.co"
                stream.writer = path.open("wb")
            elif builder is not None and kind is StreamKind.IMAGE:
                stream.writer = builder.open_image(stream.size_bytes)
            elif builder is not None:
                stream.writer = builder.open_stream(kind, stream.index, stream.size_bytes)
        except (StoreError, OSError) as error:
            self._give_up(stream, error)

    def _take_data(self, sent: protocol.Data) -> None:
        slot, size_bytes = sent.slot, sent.size_bytes
        stream = self._streams.get(sent.stream)
        shared = self._connection.shared
        if stream is None or slot >= shared.slot_count or size_bytes > shared.slot_bytes:
            raise ProtocolError("the capture library sent data for a stream or slot that does not exist")
        stream.received_bytes += size_bytes
        view = shared.view_slot(slot, size_bytes)
        try:
            if not stream.is_wanted:
                pass
            elif stream.kind in _FILES:
                stream.writer.write(view)
            else:
                self._pieces.append(Piece(stream, slot, view, stream.writer.start(view)))
                stream.pieces += 1
                # Half of the slots stay unfinished, so that the staging threads have work while the next
                # ones arrive, and no core waits for the last chunk of a slot.
                self._finish_pieces(leave=shared.slot_count // 2)
                return
        except (KerncapError, OSError) as error:
            self._give_up(stream, error)
        view.release()
        self._connection.send(protocol.FreeSlot(slot))

    def _finish_pieces(self, leave: int = 0) -> None:
        """Wait until at most ``leave`` pieces are not staged yet, and free the slots of the others."""
        while len(self._pieces) > leave:
            piece = self._pieces.popleft()
            stream = piece.stream
            try:
                piece.started.finish()
                if stream.builder is not None and stream.is_wanted:
                    self._emit(stream.builder.count(len(piece.view)))
            except (KerncapError, OSError) as error:
                self._give_up(stream, error)
            finally:
                piece.view.release()
                self._connection.send(protocol.FreeSlot(piece.slot))
            stream.pieces -= 1
            if stream.is_closed and stream.pieces == 0:
                self._finish_region(stream)

    def _take_repeated(self, sent: protocol.Zero | protocol.Same) -> None:
        """Add bytes that were not sent: zeros, or the bytes of the pre-state at the same offset."""
        stream, size_bytes = self._streams.get(sent.stream), sent.size_bytes
        if stream is None or stream.kind in _FILES:
            raise ProtocolError(f"the capture library sent {sent.NUMBER.name} outside of a region's contents")
        begin = stream.received_bytes
        stream.received_bytes += size_bytes
        if isinstance(sent, protocol.Same):
            self._finish_pieces()  # the pre-state has to be complete
        builder = stream.builder
        if builder is None or not stream.is_wanted:
            return
        try:
            if isinstance(sent, protocol.Zero):
                stream.writer.append_zeros(size_bytes)
            elif size_bytes == stream.size_bytes:
                stream.writer = None
                builder.keep_state(stream.index)
            else:
                same = builder.find_pre_chunks(stream.index, begin, size_bytes)
                stream.writer.append_same(size_bytes, same)
            self._emit(builder.count(size_bytes))
        except (KerncapError, OSError) as error:
            self._give_up(stream, error)

    def _leave_out(self, number: int) -> None:
        """Drop the states of a region that the program unmapped while it was copied."""
        stream = self._streams.pop(number, None)
        if stream is None or stream.kind not in (StreamKind.PRE, StreamKind.POST):
            raise ProtocolError("the capture library sent VANISHED outside of a region's contents")
        self._finish_pieces()
        stream.writer = None
        if stream.builder is not None:
            stream.builder.leave_out(stream.index)

    def _close_stream(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is None:
            return
        if stream.received_bytes != stream.size_bytes:
            raise ProtocolError("the capture library sent fewer or more bytes than it had announced")
        if not stream.is_wanted:
            return
        if stream.kind is StreamKind.CODE:
            self._finish_code(stream)
            return
        if stream.kind is StreamKind.IMAGE:
            return
        stream.is_closed = True
        if stream.pieces == 0:
            self._finish_region(stream)

    def _finish_region(self, stream: Stream) -> None:
        """Store the contents of a region, all of which have arrived."""
        if stream.builder is None or not stream.is_wanted:
            return
        try:
            stream.builder.close_stream(stream.kind, stream.index, stream.writer)
        except (KerncapError, OSError) as error:
            self._give_up(stream, error)

    def _finish_code(self, stream: Stream) -> None:
        try:
            stream.writer.close()
        except OSError as error:
            self._give_up(stream, error)
            return
        module: Module = self._modules.get(stream.index)
        module.code = Path(stream.writer.name)

    def _finish_capture(self, sent: protocol.Done) -> None:
        self._finish_pieces()
        builder = self._builders.pop(sent.capture, None)
        if builder is not None:
            self._publish(builder, sent.cost)

    def _keep_unended(self, builder: CaptureBuilder, reason: str) -> bool:
        """Publish a capture without a post-state whose kernel did not end; returns whether it could."""
        if builder.ready is None:
            return False
        self._publish(builder, builder.ready.cost)
        text = f"{reason}: the kernel did not end; the capture holds the memory from before the kernel"
        self._emit(Warned(self._connection.process_id, text))
        return True

    def _publish(self, builder: CaptureBuilder, cost: protocol.Cost) -> None:
        try:
            environment = self._facts.describe_environment(Backend(self._connection.backend))
            digest, manifest = builder.publish(cost, environment)
        except (KerncapError, OSError) as error:
            builder.abandon()
            self._report_error(error)
            return
        except ValidationError as error:  # facts of the code object or the driver contradict each other
            builder.abandon()
            self._report_error(
                Refused(
                    f"the captured dispatch could not be replayed: {describe_first_fault(error)}",
                    hint=_OTHERS,
                )
            )
            return
        self._emit(Captured(digest, manifest, builder.seconds))

    def _take_failure(self, sent: protocol.Failed) -> None:
        self._finish_pieces()
        builder = self._builders.pop(sent.capture, None)
        if builder is not None and self._keep_unended(builder, sent.reason):
            return
        if builder is not None:
            builder.abandon()
        self._emit(CaptureFailed(self._connection.process_id, sent.reason, sent.code))

    def _give_up(self, stream: Stream, error: Exception) -> None:
        """Abandon a stream's capture after an error in this process. Bytes that still arrive are dropped."""
        stream.writer = None
        builder = stream.builder
        if builder is None:  # a code object: all captures of its kernels will fail
            self._report_error(error)
        elif self._builders.pop(builder.number, None) is not None:
            builder.abandon()
            self._report_error(error)

    def _report_error(self, error: Exception) -> None:
        self._emit(CaptureFailed(self._connection.process_id, str(error), error=error))
