"""One process under capture: its modules, its selections, and the captures that it sends."""

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
from kerncap_stages.collect.selection import KernelRule, answers, first_wanting
from kerncap_stages.collect.wire import ProtocolError
from kerncap_stages.errors import KerncapError, Refused, StoreError
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.manifests import first_fault
from kerncap_stages.manifests.capture import Reach
from kerncap_stages.manifests.environment import Backend

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerncap_stages.collect.capture_builder import CaptureContext
    from kerncap_stages.collect.connection import Connection
    from kerncap_stages.collect.modules import Module


_OTHERS = "capture another dispatch of it, or another kernel"
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
            text = "--reachable leaves nothing out of CUDA captures: all memory is taken"
            emit(Warned(connection.process_id, text))
        self.context = context
        self._facts = Facts()
        self._modules = Modules()
        self._builders: dict[int, CaptureBuilder] = {}
        self._streams: dict[int, Stream] = {}
        self._pieces: deque[Piece] = deque()  # the oldest first
        self._folder = TemporaryFolder("code")

    def hear(self, message: protocol.UpMessage) -> None:
        """Take in a message."""
        if self._modules.hear(message):
            return
        match message:
            case protocol.Facts():
                self._facts.add(message)
            case protocol.ModuleEnd():
                self._select(message.module)
            case protocol.Capture():
                self._begin(message)
            case protocol.Regions():
                if (builder := self._builders.get(message.capture)) is not None:
                    builder.add_regions(message.regions)
            case protocol.Open():
                self._open(message)
            case protocol.Data():
                self._data(message)
            case protocol.Zero() | protocol.Same():
                self._repeat(message)
            case protocol.Close():
                self._close_stream(message.stream)
            case protocol.Ready():
                if (builder := self._builders.get(message.capture)) is not None:
                    builder.ready = message
            case protocol.Done():
                self._done(message)
            case protocol.Failed():
                self._failed(message)
            case protocol.Note():
                self._emit(Warned(self._connection.process_id, message.text))
            case _:
                raise ProtocolError(
                    f"the capture library sent {message.NUMBER.name}, which has no place here"
                )

    def idle(self) -> None:
        """Give back what the library may be waiting for."""
        self._settle()

    def close(self) -> None:
        """Undo captures that were not finished; tell what the process did."""
        self._settle()
        lost = self._connection.lost()
        reason = f"{LOST if lost else 'the process ended'} in the middle of a capture"
        for builder in self._builders.values():
            if not self._kept(builder, reason):
                self._emit(CaptureFailed(self._connection.process_id, reason, process_ended=not lost))
                builder.abandon()
        shared = self._connection.shared
        self._emit(
            ProcessSummary(
                process_id=self._connection.process_id,
                backend=self._connection.backend,
                kernels={kernel.demangled for kernel in self._modules.kernels.values()},
                matched=[shared.matched(index) for index in range(len(self._rules))],
                other_shapes=[shape for i in range(len(self._rules)) if (shape := shared.other_shape(i))],
                dispatches=shared.dispatches,
                uninterceptable_queues=shared.uninterceptable_queues,
                unlisted=shared.unlisted,
                lost=lost,
            )
        )
        self._folder.remove()

    def _select(self, number: int) -> None:
        module = self._modules.module(number)
        matches = []
        for kernel in module.kernels:
            rule = first_wanting(self._rules, kernel.mangled, kernel.demangled)
            if rule is not None:
                matches.append((kernel.number, rule))
        if matches and self._facts.xnack:
            matches = []
            self._refuse_xnack()
        for message in answers(number, bool(matches), matches):
            self._connection.send(message)

    def _refuse_xnack(self) -> None:
        reason = (
            "XNACK is on: the kernel can reach all memory of the process, which no capture holds; "
            "set HSA_XNACK=0 if the program runs without it"
        )
        self._emit(CaptureFailed(self._connection.process_id, reason, FailureCode.UNSUPPORTED_MEMORY))

    def _begin(self, sent: protocol.Capture) -> None:
        process_id = self._connection.process_id
        try:
            builder = CaptureBuilder(sent, self._modules, self._rules, self.context, process_id)
        except (StoreError, OSError) as error:
            self._report(error)
            return
        self._builders[builder.number] = builder

    def _open(self, sent: protocol.Open) -> None:
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
            self._fail(stream, error)

    def _data(self, sent: protocol.Data) -> None:
        slot, size_bytes = sent.slot, sent.size_bytes
        stream = self._streams.get(sent.stream)
        shared = self._connection.shared
        if stream is None or slot >= shared.slot_count or size_bytes > shared.slot_bytes:
            raise ProtocolError("the capture library sent data that belongs nowhere")
        stream.received_bytes += size_bytes
        view = shared.slot(slot, size_bytes)
        try:
            if not stream.is_wanted:
                pass
            elif stream.kind in _FILES:
                stream.writer.write(view)
            else:
                self._pieces.append(Piece(stream, slot, view, stream.writer.start(view)))
                stream.pieces += 1
                # One is under way while the next is heard of: the threads that stage them never wait for us.
                self._settle(leave=1)
                return
        except (KerncapError, OSError) as error:
            self._fail(stream, error)
        view.release()
        self._connection.send(protocol.FreeSlot(slot))

    def _settle(self, leave: int = 0) -> None:
        """Wait until all but so many pieces are staged, and give their slots back."""
        while len(self._pieces) > leave:
            piece = self._pieces.popleft()
            stream = piece.stream
            try:
                piece.started.finish()
                if stream.builder is not None and stream.is_wanted:
                    self._emit(stream.builder.count(len(piece.view)))
            except (KerncapError, OSError) as error:
                self._fail(stream, error)
            finally:
                piece.view.release()
                self._connection.send(protocol.FreeSlot(piece.slot))
            stream.pieces -= 1
            if stream.is_closed and stream.pieces == 0:
                self._finish(stream)

    def _repeat(self, sent: protocol.Zero | protocol.Same) -> None:
        """Take in bytes that need not be sent: zeros, or what the pre-state has in the same place."""
        stream, size_bytes = self._streams.get(sent.stream), sent.size_bytes
        if stream is None or stream.kind in _FILES:
            raise ProtocolError(f"the capture library sent {sent.NUMBER.name} where it has no place")
        begin = stream.received_bytes
        stream.received_bytes += size_bytes
        if isinstance(sent, protocol.Same):
            self._settle()  # the pre-state has to be whole
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
                same = builder.pre_chunks(stream.index, begin, size_bytes)
                stream.writer.append_same(size_bytes, same)
            self._emit(builder.count(size_bytes))
        except (KerncapError, OSError) as error:
            self._fail(stream, error)

    def _close_stream(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is None:
            return
        if stream.received_bytes != stream.size_bytes:
            raise ProtocolError("the capture library sent less or more than it had announced")
        if not stream.is_wanted:
            return
        if stream.kind is StreamKind.CODE:
            self._finish_code(stream)
            return
        if stream.kind is StreamKind.IMAGE:
            return
        stream.is_closed = True
        if stream.pieces == 0:
            self._finish(stream)

    def _finish(self, stream: Stream) -> None:
        """The contents of a region are there, whole."""
        if stream.builder is None or not stream.is_wanted:
            return
        try:
            stream.builder.close_stream(stream.kind, stream.index, stream.writer)
        except (KerncapError, OSError) as error:
            self._fail(stream, error)

    def _finish_code(self, stream: Stream) -> None:
        try:
            stream.writer.close()
        except OSError as error:
            self._fail(stream, error)
            return
        module: Module = self._modules.module(stream.index)
        module.code = Path(stream.writer.name)

    def _done(self, sent: protocol.Done) -> None:
        self._settle()
        builder = self._builders.pop(sent.capture, None)
        if builder is not None:
            self._publish(builder, sent.cost)

    def _kept(self, builder: CaptureBuilder, reason: str) -> bool:
        """Keep what was there before a kernel that did not end, where no more is wanted."""
        if builder.ready is None:
            return False
        self._publish(builder, builder.ready.cost)
        text = f"{reason}: the kernel did not end, and the capture holds what was there before it"
        self._emit(Warned(self._connection.process_id, text))
        return True

    def _publish(self, builder: CaptureBuilder, cost: protocol.Cost) -> None:
        try:
            environment = self._facts.environment(Backend(self._connection.backend))
            digest, manifest = builder.publish(cost, environment)
        except (KerncapError, OSError) as error:
            builder.abandon()
            self._report(error)
            return
        except ValidationError as error:  # a code object, or a driver, says what no replay could follow
            builder.abandon()
            self._report(
                Refused(f"no replay could follow what was captured: {first_fault(error)}", hint=_OTHERS)
            )
            return
        self._emit(Captured(digest, manifest, builder.seconds))

    def _failed(self, sent: protocol.Failed) -> None:
        self._settle()
        builder = self._builders.pop(sent.capture, None)
        if builder is not None and self._kept(builder, sent.reason):
            return
        if builder is not None:
            builder.abandon()
        self._emit(CaptureFailed(self._connection.process_id, sent.reason, sent.code))

    def _fail(self, stream: Stream, error: Exception) -> None:
        """Give a stream's capture up for an error of ours; what still comes of it is taken and dropped."""
        stream.writer = None
        builder = stream.builder
        if builder is None:  # code: whatever is captured of it fails
            self._report(error)
        elif self._builders.pop(builder.number, None) is not None:
            builder.abandon()
            self._report(error)

    def _report(self, error: Exception) -> None:
        self._emit(CaptureFailed(self._connection.process_id, str(error), error=error))
