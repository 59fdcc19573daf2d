"""Whole, plausible manifests of each kind, and for both back ends."""

from __future__ import annotations

import hashlib

from kerncap_stages.digest import Digest, FileRef, ManifestRef, MemoryRef
from kerncap_stages.manifests.capture import Capture, CaptureCost, Dispatch, NameMatch, Reach, Selection
from kerncap_stages.manifests.environment import Backend, Device, Environment, Program
from kerncap_stages.manifests.evaluation import (
    CaseResult,
    EvaluatedCase,
    EvaluatedVariant,
    Evaluation,
    MeasuredTime,
)
from kerncap_stages.manifests.evaluation import Outcome as EvaluationOutcome
from kerncap_stages.manifests.files import Files, StoredFile, StoredLink
from kerncap_stages.manifests.kernel import (
    CodeObject,
    CodeObjectFormat,
    KernargSlot,
    Kernel,
    Language,
    Launch,
    Registers,
)
from kerncap_stages.manifests.memory import LoadedCodeObject, MemoryKind, ModuleVariable, Region
from kerncap_stages.manifests.profile import KernelStatistics, LaunchShape, Profile
from kerncap_stages.manifests.replay import Replay, ReplayOutcome, ReplayPlan
from kerncap_stages.manifests.reproducer import ProjectFile, ReproducedKernel, Reproducer
from kerncap_stages.manifests.source import (
    CompileCommand,
    Definition,
    Outcome,
    Source,
    SourceFile,
    Unedited,
)
from kerncap_stages.manifests.timing import TimeSource, TimingSummary
from kerncap_stages.manifests.triton import (
    TritonArgument,
    TritonFunction,
    TritonKernel,
    TritonLaunch,
    TritonTensor,
    TritonValue,
)
from kerncap_stages.manifests.validation import (
    BuiltFile,
    ElementType,
    ErrorSize,
    GivenBounds,
    JudgeOptions,
    Mode,
    OutputPrecision,
    Precision,
    RegionResult,
    Validation,
)

MADE_BY = "kerncap-stages 0.1.0"


def digest(seed: str) -> Digest:
    return Digest(hashlib.sha256(seed.encode()).hexdigest())


def environment(backend: Backend = Backend.HSA) -> Environment:
    if backend is Backend.HSA:
        device = Device(
            index=0, name="AMD Instinct MI210", architecture="gfx90a", target="gfx90a:sramecc+:xnack-",
            isa="amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", pci_address="0000:03:00.0",
            memory_size_bytes=64 << 30, compute_units=104, wavefront_size=64, xnack=False, sramecc=True,
        )  # fmt: skip
    else:
        device = Device(
            index=0, name="NVIDIA H200", architecture="sm_90", target="sm_90a", isa="sm_90a",
            uuid="GPU-0123", memory_size_bytes=139 << 30, compute_units=132, wavefront_size=32,
        )  # fmt: skip
    return Environment(
        recorded_at="2026-11-21T02:00:00Z", backend=backend, operating_system="Debian GNU/Linux forky",
        kernel_release="6.12.0", driver_version="6.12.12", runtime_version="1.15", toolkit_version="6.4.3",
        devices=(device, device.model_copy(update={"index": 1})),
    )  # fmt: skip


def program() -> Program:
    return Program(
        command=("./app", "--size", "512"), working_directory="/home/somebody/app",
        environment={"HIP_VISIBLE_DEVICES": "0,1"}, executable=digest("executable"), exit_code=0,
    )  # fmt: skip


def code_object(file_format: CodeObjectFormat = CodeObjectFormat.ELF_AMDGPU) -> CodeObject:
    isa = "sm_90a" if file_format is CodeObjectFormat.CUBIN else "amdgcn-amd-amdhsa--gfx90a"
    return CodeObject(
        payload=FileRef.to(digest("code object")), size_bytes=5032, format=file_format, isa=isa, abi_version=5
    )


def hsa_kernel(**changes: object) -> Kernel:
    fields: dict[str, object] = {
        "mangled_name": "_Z5scalePfS_fi",
        "demangled_name": "scale(float*, float*, float, int)",
        "language": Language.HIP,
        "code_object": code_object(),
        "wavefront_size": 64,
        "registers": Registers(sgpr_count=18, vgpr_count=6, agpr_count=0),
        "static_lds_bytes": 1024,
        "scratch_bytes_per_work_item": 0,
        "kernarg_size_bytes": 24,
        "kernarg_align_bytes": 8,
        "slots": (
            KernargSlot(offset_bytes=0, size_bytes=8, value_kind="global_buffer", name="out",
                        type_name="float*", address_space="global", access="write_only"),
            KernargSlot(offset_bytes=8, size_bytes=8, value_kind="global_buffer", name="in",
                        type_name="float*", address_space="global", access="read_only", is_const=True),
            KernargSlot(offset_bytes=16, size_bytes=4, value_kind="by_value", name="factor",
                        type_name="float"),
            KernargSlot(offset_bytes=20, size_bytes=4, value_kind="hidden_block_count_x"),
        ),
        "max_work_group_size": 1024,
    }  # fmt: skip
    return Kernel.model_validate(fields | changes)


def triton_kernel() -> Kernel:
    triton = TritonKernel(
        function_name="add_kernel", dialect="triton", parameter_names=("x_ptr", "n", "BLOCK"),
        signature=(("x_ptr", "*bf16"), ("n", "i32")),
        constexprs=(TritonValue(name="BLOCK", type_name="int", text="1024"),),
        options=(TritonValue(name="num_warps", type_name="int", text="4"),),
        specialization=(("x_ptr", "tt.divisibility", "16"),),
        target=("cuda", "90", 32),
        functions=(TritonFunction(
            module="add", qualified_name="add_kernel", path="/home/somebody/add.py", line=7, end_line=15,
            source=FileRef.to(digest("py")), source_size_bytes=300,
            text="def add_kernel(x_ptr, n, BLOCK): pass", decorator="jit", noinline=False,
            has_own_name=False, uses=(TritonValue(name="SCALE", type_name="float", text="float('inf')"),),
        ),),
        autotuned=True,
    )  # fmt: skip
    return hsa_kernel(
        mangled_name="add_kernel", demangled_name="add_kernel", language=Language.TRITON, wavefront_size=32,
        code_object=code_object(CodeObjectFormat.CUBIN), registers=Registers(per_thread_count=40),
        triton=triton,
    )  # fmt: skip


def triton_launch() -> TritonLaunch:
    tensor = TritonTensor(
        address=0x7F0000000000, dtype="bfloat16", shape=(4, 8), strides=(8, 1), storage_offset_elements=0,
        storage_size_bytes=64,
    )  # fmt: skip
    return TritonLaunch(grid_programs=(4, 1, 1), arguments=(
        TritonArgument(name="x_ptr", type_name="tensor", tensor=tensor),
        TritonArgument(name="n", type_name="int", text="32"),
        TritonArgument(name="odd", type_name="app.Odd", unknown="it is neither a tensor nor a plain value"),
    ))  # fmt: skip


def capture(backend: Backend = Backend.HSA, **changes: object) -> Capture:
    kernel = hsa_kernel() if backend is Backend.HSA else triton_kernel()
    pre, post = MemoryRef.to(digest("pre")), MemoryRef.to(digest("post"))
    fields: dict[str, object] = {
        "made_by": MADE_BY,
        "parents": (ManifestRef.to(digest("profile")),),
        "environment": environment(backend),
        "program": program(),
        "selection": Selection(match=NameMatch.SUBSTRING, pattern="scale", dispatch=2),
        "dispatch": Dispatch(
            run_id="0123456789abcdef" * 2, process_id=4242, index_in_process=17, index_of_kernel=2,
            device_index=0, queue_index=1, duration_ns=12345, time_source=TimeSource.DEVICE,
        ),
        "kernel": kernel,
        "launch": Launch(
            grid_work_items=(1000, 1, 1), grid_blocks=(4, 1, 1), block_work_items=(256, 1, 1),
            static_lds_bytes=1024, dynamic_lds_bytes=512, private_segment_bytes=0, aql_packet="00" * 64,
            triton=None if backend is Backend.HSA else triton_launch(),
        ),
        "kernarg": "00" * kernel.kernarg_size_bytes,
        "reach": Reach.ALL,
        "chunk_size_bytes": 1 << 20,
        "regions": (
            Region(base_address=0x7F0000000000, size_bytes=4096, kind=MemoryKind.DEVICE_COARSE,
                   device_index=0, accessible_from=(0, 1), pre=pre, post=post,
                   written=((0, 128), (256, 8)), written_size_bytes=130),
            Region(base_address=0x7F0000200000, size_bytes=1 << 30, kind=MemoryKind.HOST_PINNED,
                   device_index=None, accessible_from=(0,), pre=pre, post=pre, written=(),
                   written_size_bytes=0),
            Region(base_address=0x7F0080000000, size_bytes=1 << 21, kind=MemoryKind.VMEM, device_index=1,
                   accessible_from=(1,), left_out_reason="not reachable from the kernel's arguments"),
        ),
        "module_variables": (
            ModuleVariable(symbol="table", code_object=digest("code object"), device_index=0,
                           address=0x7F0090000000, size_bytes=256, is_const=True, pre=pre, post=pre,
                           written=(), written_size_bytes=0),
        ),
        "loaded_code_objects": (
            LoadedCodeObject(code_object=digest("code object"), payload=FileRef.to(digest("code object")),
                             device_index=0, load_address=0x7F00A0000000, load_size_bytes=8192),
        ),
        "cost": CaptureCost(drain_ns=1000, pre_copy_ns=2000, post_copy_ns=3000, held_ns=7000,
                            copied_size_bytes=2 << 30),
    }  # fmt: skip
    return Capture.model_validate(fields | changes)


def profile() -> Profile:
    shape = LaunchShape(
        grid_work_items=(1000, 1, 1), grid_blocks=(4, 1, 1), block_work_items=(256, 1, 1), lds_bytes=1536,
        calls=3, total_ns=900,
    )  # fmt: skip
    kernels = tuple(
        KernelStatistics(name=name, calls=3, total_ns=total, mean_ns=total / 3, min_ns=1, max_ns=total,
                         stddev_ns=2.5, share=total / 1000, launch_shapes=(shape,))
        for name, total in (("scale(float*, float*, float, int)", 900), ("fill(int*)", 100))
    )  # fmt: skip
    return Profile(
        made_by=MADE_BY, environment=environment(), program=program(), time_source=TimeSource.DEVICE,
        wall_ns=10**9, processes=1, kernels=kernels,
    )  # fmt: skip


def source() -> Source:
    return Source(
        made_by=MADE_BY, parents=(ManifestRef.to(digest("capture")),),
        capture=ManifestRef.to(digest("capture")),
        kernel_name="scale(float*, float*, float, int)", language=Language.HIP, outcome=Outcome.FOUND,
        definition=Definition(path="/home/somebody/app/scale.hip", line=12, end_line=20,
                              qualified_name="scale"),
        compile_command=CompileCommand(
            translation_unit="/home/somebody/app/scale.hip", directory="/home/somebody/app/build",
            arguments=("hipcc", "-O3", "-c", "../scale.hip"),
        ),
        files=(SourceFile(path="/home/somebody/app/scale.hip", payload=FileRef.to(digest("source")),
                          size_bytes=400, is_header=False),),
        headers_by_compiler=True, unedited=Unedited(same_instructions=True),
    )  # fmt: skip


def reproducer() -> Reproducer:
    kernel = ReproducedKernel(name="scale", capture=ManifestRef.to(digest("capture")), source=None)
    files = tuple(
        ProjectFile(path=path, payload=FileRef.to(digest(path)), size_bytes=10)
        for path in ("Makefile", "deps/scale.h", "kernel_variant.cpp")
    )
    return Reproducer(
        made_by=MADE_BY, language=Language.HIP, kernels=(kernel,), files=files, can_recompile=False,
        missing=("no compile command: `make recompile` cannot work",),
    )  # fmt: skip


def timing() -> TimingSummary:
    return TimingSummary(
        source=TimeSource.SOFTWARE_GPU, samples_ns=(10, 12, 11), min_ns=10, median_ns=11, mean_ns=11,
        p05_ns=10, p95_ns=12, max_ns=12, stddev_ns=0.8, instructions=420,
    )  # fmt: skip


def replay() -> Replay:
    return Replay(
        made_by=MADE_BY, capture=ManifestRef.to(digest("capture")), environment=environment(),
        variant=code_object(), plan=ReplayPlan(iterations=3, warmup=1), outcome=ReplayOutcome.COMPLETED,
        timing=timing(), matches_golden=True,
    )  # fmt: skip


def validation() -> Validation:
    region = RegionResult(
        name="out", base_address=0x7F0000000000, device_index=0, element_type=ElementType.FP32, passed=False,
        compared_size_bytes=136, differing_size_bytes=4, elements=34, elements_out_of_bounds=1,
        max_absolute_error=float("inf"), max_relative_error=float("nan"), inf_actual=1,
        changed_region=0x7F0000000000, start="fresh values in few elements",
    )  # fmt: skip
    return Validation(
        made_by=MADE_BY, capture=ManifestRef.to(digest("capture")), environment=environment(),
        variant=code_object(), mode=Mode.NUMERIC, passed=False, reasons=("1 element is out of bounds",),
        regions=(region,), precision=precision(),
        fresh_states=2,
        inputs_kept=False,
        judge_code=digest("judge"),
        built_from=(BuiltFile(path="kernel_variant.cpp", digest=digest("edited")),),
        options=JudgeOptions(
            bounds=GivenBounds(atol=None, rtol=1e-3, ulp=None), default_type=ElementType.FP32,
            timeout_s=300.0, baseline_runs=2, perturb=True, variant_runs=None, fresh_values=False, seed=None,
            reference=digest("reference"),
        ),
    )  # fmt: skip


def precision() -> Precision:
    output = OutputPrecision(
        name="out (float*)", element_type=ElementType.FP32, fresh_values=False, passed=False, elements=34,
        unusable_elements=1, captured=ErrorSize(max_absolute=1e-6, rms=1e-7),
        variant=ErrorSize(max_absolute=float("inf"), rms=float("inf")), captured_ulp=0.4,
        allowed_share=float("inf"), factor=4.0, worst_address=0x7F0000000000, worst_true=0.5,
        worst_actual=float("nan"),
    )  # fmt: skip
    return Precision(file_name="reference.py", file=FileRef.to(digest("reference")), outputs=(output,))


def files() -> Files:
    return Files(
        made_by=MADE_BY, name="data", is_folder=True,
        files=(
            StoredFile(path="a.bin", content=FileRef.to(digest("a")), size_bytes=3),
            StoredFile(path="sub/b.bin", content=MemoryRef.to(digest("b")), size_bytes=9 << 20,
                       executable=True),
        ),
        links=(StoredLink(path="sub/c", target="../a.bin"),), empty_folders=("none",),
    )  # fmt: skip


def evaluation() -> Evaluation:
    case = EvaluatedCase(capture=ManifestRef.to(digest("capture")), launch="", weight=None)
    right = EvaluatedVariant(
        name="variants/tile 8.hip", outcome=EvaluationOutcome.RIGHT, code=FileRef.to(digest("code object")),
        code_digest=digest("code object"), source_digest=digest("hip"), flags=("-DTILE=8",),
        cases=(CaseResult(
            verdict=ManifestRef.to(digest("verdict")), passed=True,
            time=MeasuredTime(ratio=0.75, variant_instructions=750, captured_instructions=1000),
        ),),
        ratio=0.75, rank=1,
    )  # fmt: skip
    twin = right.model_copy(update={"name": "again.hsaco", "source_digest": None, "flags": (), "same_as": 0})
    wrong = EvaluatedVariant(
        name="wrong.hsaco", outcome=EvaluationOutcome.WRONG, code=FileRef.to(digest("wrong")),
        code_digest=digest("wrong"), ratio=None, reasons=("outputs differ",),
        cases=(CaseResult(verdict=ManifestRef.to(digest("verdict 2")), passed=False),),
    )  # fmt: skip
    broken = EvaluatedVariant(
        name="broken.hip", outcome=EvaluationOutcome.NOT_BUILT, code=None, code_digest=None, cases=(),
        ratio=None, reasons=("broken.hip:1: error: expected expression",),
    )  # fmt: skip
    return Evaluation(
        parents=(case.capture,), made_by=MADE_BY, kernel_name="scale(float*, float*, float, int)",
        cases=(case,), environment=environment(), machine=digest("machine"), complete=True,
        variants=(right, twin, wrong, broken),
    )  # fmt: skip


def every_manifest() -> list[object]:
    return [
        profile(), capture(), capture(Backend.CUDA), source(), reproducer(), replay(), validation(),
        evaluation(), files(),
    ]  # fmt: skip
