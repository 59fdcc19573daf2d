"""Captures that somebody else may have written: read whole, or refused by name with what to do next.

What is in an archive was checked for damage, not for sense: its manifests may say anything.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import executables
import manifest_examples as examples
import pytest
from cuda_captures import publish_cuda
from made_up import device_code, publish

from kerncap_stages.code.code_object import list_data_symbols
from kerncap_stages.code.cubin import find_embedded_ptx, find_kernel_code
from kerncap_stages.code.cubin_elf import read_sections
from kerncap_stages.code.read import read_code_object
from kerncap_stages.compilers.line_tables import read_line_tables
from kerncap_stages.digest import MemoryRef
from kerncap_stages.errors import ArtifactError, DigestMismatch, ExitCode, KerncapError, ManifestUnreadable
from kerncap_stages.generate.engine import run_generate
from kerncap_stages.generate.request import make_project_key
from kerncap_stages.manifests import dump, load_as, to_canonical
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.environment import Backend
from kerncap_stages.project.artifacts import find_capture_of
from kerncap_stages.replay.cuda_code import link_baseline, link_variant
from kerncap_stages.replay.plan import PlanFiles, write_plan
from kerncap_stages.replay.variant import read_variant
from kerncap_stages.store.chunks import read_chunk, read_chunk_list
from kerncap_stages.validate.compare.bounds import Bounds
from kerncap_stages.validate.request import JudgeSettings, read_request

GOLDEN = Path(__file__).parents[1] / "golden/cuda"
LINKS = (GOLDEN / "links.cubin").read_bytes()
CUBINS = {path.stem: path.read_bytes() for path in sorted(GOLDEN.glob("*.cubin"))}
SETTINGS = JudgeSettings(
    bounds=Bounds(), default_type=None, timeout_s=5.0, baseline_runs=2, perturb=False, variant_runs=None
)

_MOST_SECTIONS = 16

# Where in a capture of either back end, what stands there, and what is said of it.
SENSELESS = [
    ("kernel.slots.0.offset_bytes", 1 << 62, "ends outside the 24 bytes of arguments"),
    ("kernel.slots.0.size_bytes", 25, "ends outside the 24 bytes of arguments"),
    ("kernel.slots.3.offset_bytes", 24, "ends outside the 24 bytes of arguments"),
    ("kernel.slots.0.offset_bytes", -1, "kernel.slots.0.offset_bytes: "),
    ("kernel.kernarg_size_bytes", 1 << 40, "kernarg is shorter"),
    ("launch.attributes", {"carveout": "101"}, "launch's carveout is not a number from -1 to 100"),
    ("launch.attributes", {"carveout": "half"}, "launch's carveout is not a number"),
    ("launch.attributes", {"carveout": "9" * 5000}, "launch's carveout is not a number"),
    ("launch.attributes", {"stack_limit": "-1"}, "launch's stack_limit is not a number"),
    ("launch.attributes", {"printf_limit": "1 2\nsymbol other"}, "launch's printf_limit is not a number"),
    ("launch.static_lds_bytes", 1 << 32, "launch.static_lds_bytes: "),
    ("launch.dynamic_lds_bytes", 1 << 63, "launch.dynamic_lds_bytes: "),
    ("launch.private_segment_bytes", 1 << 32, "launch.private_segment_bytes: "),
    ("launch.block_work_items", [0, 1, 1], "launch.block_work_items.0: "),
    ("launch.block_work_items", [1 << 16, 1, 1], "launch.block_work_items.0: "),
    ("launch.grid_blocks", [1 << 32, 1, 1], "launch.grid_blocks.0: "),
    ("launch.cluster_blocks", [1, 1, 1 << 32], "launch.cluster_blocks.2: "),
    ("launch.cluster_blocks", [0, 5, 7], "cluster_blocks is zero in some dimensions only"),
    ("dispatch.device_index", 7, r"devices \[7\] are used but not described"),
    ("environment.devices.0.isa", "", "environment.devices.0.isa: "),
    ("environment.devices.0.index", 5, "devices are not numbered 0, 1, 2"),
    ("regions.0.accessible_from", [64], "regions.0.accessible_from.0: "),
    ("regions.0.base_address", (1 << 64) - 1, "outside the address space"),
    ("regions.1.base_address", 0x7F0000000800, "two regions contain the address 0x7f0000000800"),
    ("regions.0.flags", ["physical:-1"], "has no number of a piece of physical memory"),
    ("regions.0.flags", ["physical:" + "1" * 5000], "has no number of a piece of physical memory"),
    ("module_variables.0.address", (1 << 64) - 1, "outside the address space"),
    ("loaded_code_objects.0.load_address", (1 << 64) - 1, "outside the address space"),
]


def changed(manifest, path, value):
    """The manifest with something else in one place, as JSON."""
    content = place = json.loads(dump(manifest))
    *steps, last = (int(step) if step.isdecimal() else step for step in path.split("."))
    for step in steps:
        place = place[step]
    place[last] = value
    return content


def published(store, content):
    """What `kc-store import` does: canonical JSON of a known kind is listed."""
    with store.begin_transaction() as transaction:
        digest = transaction.put_bytes(to_canonical(content))
        transaction.publish_objects()
    return digest


@pytest.mark.parametrize("backend", Backend)
@pytest.mark.parametrize(("path", "value", "said"), SENSELESS, ids=lambda value: str(value)[:40])
def test_what_no_launch_can_have_is_refused_by_name(store, backend, path, value, said):
    digest = published(store, changed(examples.capture(backend), path, value))
    with pytest.raises(ManifestUnreadable, match=rf"{digest.short}: malformed capture .*{said}") as caught:
        load_as(store, digest, Capture)
    assert caught.value.hint


def test_a_grid_that_no_aql_packet_holds_is_one_of_cuda_alone(store):
    launch = examples.capture().launch.model_dump(mode="json")
    launch |= {"grid_work_items": [1 << 33, 1, 1], "grid_blocks": [1 << 25, 1, 1]}
    cuda = published(store, changed(examples.capture(Backend.CUDA), "launch", launch))
    assert load_as(store, cuda, Capture).launch.grid_blocks[0] == 1 << 25
    hsa = published(store, changed(examples.capture(), "launch", launch))
    with pytest.raises(ManifestUnreadable, match="an AQL packet cannot hold this grid"):
        load_as(store, hsa, Capture)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("regions.0.base_address", 0),
        ("regions.0.base_address", (1 << 16) - 1),
        ("regions.2.base_address", 1 << 57),
        ("regions.2.base_address", (1 << 57) - 4096),
        ("regions.2.base_address", 0xFFFF800000000000),
    ],
)
def test_a_place_that_no_process_has_is_one_of_hsa_alone(store, path, value):
    hsa = published(store, changed(examples.capture(), path, value))
    assert value in [region.base_address for region in load_as(store, hsa, Capture).regions]
    cuda = published(store, changed(examples.capture(Backend.CUDA), path, value))
    with pytest.raises(ManifestUnreadable, match=f"region {value:#x} lies where no process can have memory"):
        load_as(store, cuda, Capture)


@pytest.mark.parametrize(
    ("path", "value"),
    [("regions.0.base_address", 1 << 16), ("regions.2.base_address", (1 << 57) - (1 << 21))],
)
def test_the_first_and_the_last_place_of_a_process_are_some(store, path, value):
    content = changed(examples.capture(Backend.CUDA), path, value)
    assert load_as(store, published(store, content), Capture).regions


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("environment", 5),
        ("environment.devices", []),
        ("environment.devices", "none"),
        ("dispatch", {}),
        ("dispatch.device_index", "first"),
        ("regions", [{"size_bytes": "large"}]),
        ("regions", None),
    ],
)
def test_what_is_read_without_the_models_is_refused_in_their_words(store, path, value):
    digest = published(store, changed(examples.capture(), path, value))
    with pytest.raises(ManifestUnreadable, match=f"{digest.short}: malformed capture"):
        read_request(store, digest, None, SETTINGS)


@pytest.mark.parametrize(
    ("manifest", "path"), [(examples.source(), "capture"), (examples.reproducer(), "kernels")]
)
@pytest.mark.parametrize("value", [None, [], "nowhere", 7])
def test_what_leads_to_a_capture_is_refused_where_it_leads_nowhere(store, manifest, path, value):
    digest = published(store, changed(manifest, path, value))
    with pytest.raises(ManifestUnreadable, match=f"{digest.short}: malformed {manifest.kind}"):
        find_capture_of(store, digest)
    if manifest.kind == "source":
        with pytest.raises(ManifestUnreadable, match=f"{digest.short}: malformed source"):
            make_project_key(store, [digest], assembly=False)


@pytest.mark.parametrize("stage", ["kc-show", "kc-replay", "kc-validate", "kc-generate", "kc-locate"])
def test_every_stage_ends_with_the_artifact_and_the_next_step(store, stage):
    whole = load_as(store, publish_cuda(store, LINKS, "use"), Capture)
    content = changed(whole, "launch.attributes", {"carveout": "1e9"})
    digest = executables.publish(store, to_canonical(content))
    done = executables.run(stage, digest, store=store.root)
    assert done.returncode == ExitCode.ARTIFACT
    assert "Traceback" not in done.stderr
    assert digest[:12] in done.stderr
    assert "  next: " in done.stderr


def planned(store, tmp_path, capture):
    write_plan(store, capture, PlanFiles(baseline=tmp_path / "code"), tmp_path / "plan")


def test_a_state_of_another_size_than_its_region_is_never_restored(store, tmp_path):
    capture = load_as(store, publish_cuda(store, LINKS, "use"), Capture)
    planned(store, tmp_path, capture)
    with store.begin_transaction() as transaction:
        longer = MemoryRef.to(transaction.put_memory(bytes(8192)))
        transaction.publish_objects()
    region = capture.regions[0].model_copy(update={"post": longer})
    hostile = capture.model_copy(update={"regions": (region,)})
    with pytest.raises(ArtifactError, match=f"{longer.digest.short} has 8192 bytes.*0x7f.* 4096") as caught:
        planned(store, tmp_path, hostile)
    assert caught.value.hint


def test_states_in_chunks_of_different_sizes_are_refused(store, tmp_path):
    capture = load_as(store, publish_cuda(store, LINKS, "use"), Capture)
    other = listed(store, 4096, 1024, [None] * 4)
    region = capture.regions[0].model_copy(update={"post": other})
    with pytest.raises(ArtifactError, match=f"{other.digest.short} has another chunk size"):
        planned(store, tmp_path, capture.model_copy(update={"regions": (region,)}))


def test_a_launch_attribute_of_other_than_64_bytes_is_refused(store, tmp_path):
    capture = load_as(store, publish_cuda(store, LINKS, "use"), Capture)
    launch = capture.launch.model_copy(update={"attributes": {"priority": "ff"}})
    with pytest.raises(ArtifactError, match="launch attribute priority does not have 64 bytes"):
        planned(store, tmp_path, capture.model_copy(update={"launch": launch}))


def listed(store, size_bytes, chunk_bytes, chunks):
    """A chunk list as another writer may have made it."""
    content = {"chunk_size_bytes": chunk_bytes, "chunks": chunks, "kind": "memory", "schema_version": 1}
    with store.begin_transaction() as transaction:
        digest = transaction.put_bytes(to_canonical(content | {"size_bytes": size_bytes}))
        transaction.publish_objects()
    return MemoryRef.to(digest)


def test_a_chunk_of_another_size_than_listed_is_damage(store):
    with store.begin_transaction() as transaction:
        chunk = transaction.put_bytes(b"short")
        transaction.publish_objects()
    chunks = read_chunk_list(store, listed(store, 4096, 4096, [chunk]))
    with pytest.raises(DigestMismatch, match=f"{chunk.short} has 5 bytes, but is listed as a chunk of 4096"):
        read_chunk(store, chunks, 0)


def test_memory_that_is_no_chunk_list_is_damage(store):
    with store.begin_transaction() as transaction:
        digest = transaction.put_bytes(b"{}")
        transaction.publish_objects()
    with pytest.raises(DigestMismatch, match=f"object {digest}: not a chunk list"):
        read_chunk_list(store, MemoryRef.to(digest))


def refusal(function, *arguments):
    """The error that a user would read, if there is one; any other ends the test."""
    try:
        function(*arguments)
    except KerncapError as error:
        return error
    return None


def spoiled(code):
    """A cubin cut at sections' ends, and with each field of their entries out of bounds."""
    sections = read_sections(code)
    for section in sections[:: -(-len(sections) // _MOST_SECTIONS)]:
        yield code[: section.offset]
        yield code[: section.offset + section.size // 2]
        yield code[: section.header + 8]
        for at, layout in ((0, "I"), (4, "I"), (24, "Q"), (32, "Q"), (40, "I"), (44, "I")):
            for value in (0, 0xFFFFFFFF if layout == "I" else 1 << 62):
                made = bytearray(code)
                struct.pack_into(f"<{layout}", made, section.header + at, value)
                yield bytes(made)


@pytest.mark.parametrize("name", CUBINS)
def test_a_cubin_that_is_cut_or_points_outside_ends_in_facts_or_in_a_refusal(store, tmp_path, name):
    code = CUBINS[name]
    symbol = min(read_code_object(code).kernels)
    capture = load_as(store, publish_cuda(store, code, symbol), Capture)
    slots = read_code_object(code).kernels[symbol].slots
    capture = capture.model_copy(update={"kernel": capture.kernel.model_copy(update={"slots": slots})})
    given = tmp_path / "variant"
    refused: list[KerncapError] = []
    for data in spoiled(code):
        given.write_bytes(data)
        refused += [error for error in [refusal(read_variant, given, capture)] if error is not None]
        # What they cannot read they leave to the driver, or do without.
        link_baseline(store, capture, data)
        link_variant(store, capture, data)
        read_line_tables(data, symbol)
        find_kernel_code(data, symbol)
        find_embedded_ptx(data)
    assert refused
    assert all(str(given) in str(error) and error.hint for error in refused)


ELF_HEADER = 64


@pytest.mark.parametrize("keep", [ELF_HEADER, 500, 0.5, 0.9])
def test_a_code_object_that_is_cut_gives_no_assembly_and_names_itself(store, tmp_path, keep):
    source = tmp_path / "k.hip"
    source.write_text("#include <hip/hip_runtime.h>\n__global__ void k(float* x) { x[threadIdx.x] *= 2; }\n")
    whole = device_code(source, tmp_path / "k.co", "-g")
    code = whole[: keep if isinstance(keep, int) else int(keep * len(whole))]
    capture = publish(store, code, "_Z1kPf")
    digest = load_as(store, capture, Capture).kernel.code_object.payload.digest
    with pytest.raises(ArtifactError, match=f"file {digest.short}: damaged code object") as caught:
        run_generate(store, capture, assembly=True)
    assert caught.value.hint
    _, made = run_generate(store, capture)
    assert any("damaged code object" in missing for missing in made.missing)
    assert read_line_tables(code, "_Z1kPf").definition is None
    with pytest.raises(ArtifactError, match="damaged code object"):
        list_data_symbols(code)
