"""Describes the captured kernel for the manifest, from its code object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.code.fatbin import find_ptx
from kerncap_stages.code.read import read_code_object
from kerncap_stages.collect.launch_facts import guess_language
from kerncap_stages.collect.wire import ProtocolError
from kerncap_stages.digest import FileRef
from kerncap_stages.errors import Refused
from kerncap_stages.manifests.kernel import CodeObject, CodeObjectFormat, Kernel
from kerncap_stages.text.formats import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.code.kernel_facts import KernelFacts
    from kerncap_stages.collect.modules import LoadedKernel, Module
    from kerncap_stages.store import Transaction

_NO_METADATA = "assembly kernels need an .amdhsa.kernels entry"


def describe_kernel(
    loaded: LoadedKernel,
    module: Module,
    kernarg_size_bytes: int,
    images: Sequence[bytes],
    transaction: Transaction,
) -> tuple[Kernel, KernelFacts]:
    """Read a kernel's code object, and put it into the store.

    kernarg_size_bytes: how many bytes of arguments arrived.
    images: PTX and fatbins that the program passed to the driver, which compiled the code object from them.
    Raises Refused if a replay of the kernel cannot be supported.
    """
    if module.code is None:
        raise ProtocolError(f"the capture library never sent the code object of {loaded.demangled}")
    data = module.code.read_bytes()
    code = read_code_object(data)
    facts = code.kernels.get(loaded.mangled)
    if facts is None:
        raise Refused(
            f"the code object's metadata lists {count(len(code.kernels), 'kernel')}, "
            f"but not {loaded.demangled}",
            hint=_NO_METADATA if code.format is CodeObjectFormat.ELF_AMDGPU else "capture another kernel",
        )
    if facts.unsupported:
        raise Refused(
            f"{loaded.demangled} uses {' and '.join(facts.unsupported)}, which a replay cannot restore",
            hint="capture another kernel",
        )
    if facts.kernarg_size_bytes > kernarg_size_bytes:
        raise Refused(
            f"only {kernarg_size_bytes} of the {facts.kernarg_size_bytes} bytes of arguments of "
            f"{loaded.demangled} lie in memory that the program allocated",
            hint="capture another dispatch of the kernel",
        )
    kernel = Kernel(
        mangled_name=loaded.mangled,
        demangled_name=loaded.demangled,
        language=guess_language(code.format, loaded.mangled),
        code_object=CodeObject(
            payload=FileRef.to(transaction.put_bytes(data)),
            size_bytes=len(data),
            format=code.format,
            isa=code.isa,
            abi_version=code.abi_version,
            uri=module.uri or None,
            ptx=tuple(
                FileRef.to(transaction.put_bytes(text)) for text in find_ptx(images, code.isa, loaded.mangled)
            ),
        ),
        wavefront_size=facts.wavefront_size,
        registers=facts.registers,
        static_lds_bytes=facts.static_lds_bytes,
        scratch_bytes_per_work_item=facts.scratch_bytes_per_work_item,
        uses_dynamic_stack=facts.uses_dynamic_stack,
        kernarg_size_bytes=facts.kernarg_size_bytes,
        kernarg_align_bytes=facts.kernarg_align_bytes,
        kernarg_preload_offset_dwords=facts.preload_offset_dwords,
        kernarg_preload_length_dwords=facts.preload_length_dwords,
        slots=facts.slots,
        max_work_group_size=facts.max_work_group_size,
        required_work_group_size=facts.required_work_group_size,
    )
    return kernel, facts
