"""Builds one capture: stores memory as it arrives, then publishes the manifest.

A capture is stored completely or not at all.
"""

from __future__ import annotations

import io
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kerncap_stages import __version__
from kerncap_stages._native import CHUNK_SIZE_BYTES
from kerncap_stages.collect.captured_kernel import describe_kernel
from kerncap_stages.collect.captured_memory import SentRegion, describe_regions, describe_variables
from kerncap_stages.collect.launch_facts import describe_launch
from kerncap_stages.collect.protocol import CaptureFlag, StreamKind
from kerncap_stages.collect.resident import ResidentMemory
from kerncap_stages.collect.triton_launches import find_call
from kerncap_stages.collect.wire import ProtocolError
from kerncap_stages.collect.write_set import GAP_BYTES
from kerncap_stages.digest import Digest, FileRef, ManifestRef, MemoryRef
from kerncap_stages.manifests import dump
from kerncap_stages.manifests.capture import Capture, CaptureCost, Dispatch, Reach
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.manifests.kernel import Language
from kerncap_stages.manifests.memory import LoadedCodeObject
from kerncap_stages.manifests.timing import TimeSource
from kerncap_stages.store.chunks import read_chunk_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kerncap_stages.collect import protocol
    from kerncap_stages.collect.modules import Module, Modules
    from kerncap_stages.collect.selection import KernelRule
    from kerncap_stages.manifests.environment import Environment, Program
    from kerncap_stages.manifests.rtc import RtcProgram
    from kerncap_stages.manifests.triton import TritonConfiguration, TritonKernel
    from kerncap_stages.store import MemoryWriter, Store, Transaction


_MAX_IMAGE_BYTES = 16 << 20  # the capture library sends no larger image
_MAX_IMAGES = 1024


@dataclass(frozen=True)
class CaptureContext:
    """What all captures of a run have in common."""

    store: Store
    program: Callable[[], Program]
    # what Triton compiled a code object from; the transaction takes the sources
    find_triton: Callable[[Digest, Transaction], TritonKernel | None] = lambda _code_object, _transaction: (
        None
    )
    # the same of a kernel that hipRTC or NVRTC compiled; several digests may be those of the code
    find_rtc: Callable[[Sequence[Digest], Transaction], RtcProgram | None] = lambda _codes, _transaction: None
    # the launches that the Python of a process recorded
    read_triton_calls: Callable[[int], list[dict[str, Any]]] = lambda _process_id: []
    # what Triton compiled a code object with, by its kernel and checksum, and what is wanted
    find_configuration: Callable[[str, int], TritonConfiguration | None] = lambda _symbol, _checksum: None
    configuration: Mapping[str, str] = field(default_factory=dict)
    parents: tuple[Digest, ...] = ()
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    with_post: bool = True
    reach: Reach = Reach.ALL


@dataclass(frozen=True)
class Progress:
    """How much of a capture's memory has arrived."""

    done_bytes: int
    total_bytes: int


class CaptureBuilder:
    """One unfinished capture. A CAPTURE message begins it; ``publish`` or ``abandon`` ends it."""

    def __init__(
        self,
        sent: protocol.Capture,
        modules: Modules,
        rules: list[KernelRule],
        context: CaptureContext,
        process_id: int,
    ) -> None:
        self._context = context
        self._process_id = process_id
        self._rank = _read_rank(process_id)  # read now, because the kernel may end its process
        self._triton_calls = context.read_triton_calls(process_id)  # now, because later ones replace them
        self.ready: protocol.Ready | None = None  # set when the pre-state alone may be published
        self.is_abandoned = False
        self._resident = ResidentMemory(process_id)
        self._modules = modules
        self._sent = sent
        self._rule = rules[sent.rule]
        self._module: Module = modules.get(sent.module)
        self._images: list[io.BytesIO] = []  # PTX and fatbins from which the driver compiled the kernel
        self._regions: list[SentRegion] = []
        self._pre_chunks: dict[int, tuple[Digest | None, ...]] = {}
        self._begun = time.monotonic()
        self._received_bytes = 0
        self._transaction = (
            context.store.begin_transaction()
        )  # closed when the capture is published or abandoned

    @property
    def number(self) -> int:
        """The capture's number in its process."""
        return self._sent.capture

    @property
    def seconds(self) -> float:
        """Time since the capture began."""
        return time.monotonic() - self._begun

    def count(self, size_bytes: int) -> Progress:
        """Count bytes that arrived, and return the progress of the capture."""
        self._received_bytes += size_bytes
        states = 2 if self._context.with_post else 1
        return Progress(
            self._received_bytes, states * sum(region.sent.size_bytes for region in self._regions)
        )

    def abandon(self) -> None:
        """Give the capture up: nothing of it stays in the store."""
        self.is_abandoned = True
        self._transaction.close()

    def add_regions(self, regions: Iterable[protocol.Region]) -> None:
        """Add the next regions of the list. Raises ProtocolError if an index is out of order."""
        for region in regions:
            if region.index != len(self._regions):
                raise ProtocolError("the capture library lists regions out of order")
            self._regions.append(SentRegion(region))

    def open_image(self, size_bytes: int) -> io.BytesIO:
        """Return a buffer for PTX or a fatbin that the program passed to its driver."""
        if size_bytes > _MAX_IMAGE_BYTES or len(self._images) >= _MAX_IMAGES:
            raise ProtocolError("the capture library sent too many or too large code images")
        self._images.append(io.BytesIO())
        return self._images[-1]

    def open_stream(self, kind: StreamKind, index: int, size_bytes: int) -> MemoryWriter | None:
        """Return a writer for the contents of a region in one state; None if the region has vanished."""
        if index >= len(self._regions) or self._regions[index].sent.size_bytes != size_bytes:
            raise ProtocolError(f"the capture library sent {kind.name} for a region that it never listed")
        if self._regions[index].has_vanished:
            return None
        return self._transaction.open_memory_writer(size_bytes)

    def close_stream(self, kind: StreamKind, index: int, writer: MemoryWriter) -> None:
        """Store the contents of a region in one state."""
        digest = writer.finish()
        if kind is StreamKind.PRE:
            self._regions[index].pre = digest
        else:
            self._regions[index].post = digest

    def leave_out(self, index: int) -> None:
        """Record that a region vanished while it was copied: it has no states."""
        if index >= len(self._regions):
            raise ProtocolError("the capture library left out a region that it never listed")
        region = self._regions[index]
        region.has_vanished = True
        region.pre = region.post = None

    def keep_state(self, index: int) -> None:
        """Record that the post-state of a region equals its pre-state."""
        if index >= len(self._regions) or self._regions[index].pre is None:
            raise ProtocolError("the capture library refers to a pre-state that it never sent")
        self._regions[index].post = self._regions[index].pre

    def find_pre_chunks(self, index: int, begin: int, size_bytes: int) -> tuple[Digest | None, ...]:
        """Return the chunks that hold these bytes of a region's pre-state: the post-state shares them."""
        if index not in self._pre_chunks:
            pre = self._regions[index].pre
            if pre is None:
                raise ProtocolError("the capture library refers to a pre-state that it never sent")
            self._pre_chunks[index] = tuple(read_chunk_list(self._transaction, MemoryRef.to(pre)).digests)
        first = begin // CHUNK_SIZE_BYTES
        return self._pre_chunks[index][first : -(-(begin + size_bytes) // CHUNK_SIZE_BYTES)]

    def publish(self, cost: protocol.Cost, environment: Environment) -> tuple[Digest, Capture]:
        """Publish the capture, and return its digest and manifest.

        Raises Refused if a replay of the kernel cannot be supported, ProtocolError, StoreError, and
        pydantic's ValidationError if the captured facts do not fit each other.
        """
        sent = self._sent
        duration_ns = cost.duration_ns or None
        loaded = self._modules.kernels[sent.kernel]
        images = [image.getvalue() for image in self._images]
        kernel, launch_facts = describe_kernel(
            loaded, self._module, len(sent.kernarg), images, self._transaction
        )
        launch = describe_launch(sent, launch_facts, kernel.code_object.format)
        if triton := self._context.find_triton(kernel.code_digest, self._transaction):
            kernel = kernel.model_copy(update={"language": Language.TRITON, "triton": triton})
            call = find_call(
                self._triton_calls, kernel.code_digest, launch.grid_blocks, kernel.slots, sent.kernarg
            )
            launch = launch.model_copy(update={"triton": call})
        codes = (kernel.code_digest, *(ptx.digest for ptx in kernel.code_object.ptx))
        if rtc := self._context.find_rtc(codes, self._transaction):
            language = Language.HIP if environment.backend is Backend.HSA else Language.CUDA_CPP
            kernel = kernel.model_copy(update={"language": language, "rtc": rtc})
        software = environment.devices[sent.device].software
        capture = Capture(
            parents=tuple(ManifestRef.to(parent) for parent in self._context.parents),
            made_by=f"kerncap-stages {__version__}",
            environment=environment,
            program=self._context.program(),
            selection=self._rule.describe_selection(launch.grid_blocks, launch.block_work_items),
            dispatch=Dispatch(
                run_id=self._context.run_id,
                process_id=self._process_id,
                rank=self._rank,
                index_in_process=sent.index_in_process,
                index_of_kernel=sent.index_of_kernel,
                device_index=sent.device,
                queue_index=sent.queue,
                from_graph=bool(sent.flags & CaptureFlag.FROM_BATCH),
                duration_ns=duration_ns,
                time_source=None if duration_ns is None else _choose_time_source(software),
            ),
            kernel=kernel,
            launch=launch,
            kernarg=sent.kernarg[: kernel.kernarg_size_bytes].hex(),
            kernarg_address=sent.kernarg_address,
            reach=self._context.reach,
            chunk_size_bytes=CHUNK_SIZE_BYTES,
            write_set_gap_bytes=GAP_BYTES,
            regions=describe_regions(self._transaction, self._regions, self._context.reach),
            module_variables=describe_variables(
                self._transaction, self._regions, self._module, kernel.code_digest
            ),
            loaded_code_objects=tuple(self._list_loaded(kernel.code_object.payload)),
            cost=CaptureCost(
                drain_ns=cost.drain_ns,
                pre_copy_ns=cost.pre_copy_ns,
                post_copy_ns=cost.post_copy_ns,
                held_ns=cost.held_ns,
                copied_size_bytes=cost.copied_bytes,
                extra_resident_bytes=self._resident.measure_peak_bytes(),
            ),
        )
        digest = self._transaction.publish(dump(capture), "capture", self._context.parents)
        self._transaction.close()
        return digest, capture

    def _list_loaded(self, payload: FileRef) -> Iterator[LoadedCodeObject]:
        """Yield the kernel's own code object, then the other loaded code objects by address."""
        yield _describe_loaded(self._module, payload)
        others = [module for module in self._modules.by_number.values() if module is not self._module]
        for module in sorted(others, key=lambda module: module.load_address):
            if module.present and module.load_bytes:
                yield _describe_loaded(module, None)


def _choose_time_source(software: bool) -> TimeSource:
    return TimeSource.SOFTWARE_GPU if software else TimeSource.DEVICE


def _describe_loaded(module: Module, payload: FileRef | None) -> LoadedCodeObject:
    return LoadedCodeObject(
        code_object=None if payload is None else payload.digest,
        payload=payload,
        device_index=module.device,
        load_address=module.load_address,
        load_size_bytes=module.load_bytes,
        uri=module.uri or None,
    )


def _read_rank(process_id: int) -> int | None:
    """Return the rank that the launcher of an MPI or torchrun process put into its environment."""
    try:
        with open(f"/proc/{process_id}/environ", "rb") as file:  # noqa: PTH123
            values = dict(item.partition(b"=")[::2] for item in file.read().split(b"\0"))
    except OSError:
        return None
    for name in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK", b"SLURM_PROCID", b"RANK"):
        if values.get(name, b"").isdigit():
            return int(values[name])
    return None
