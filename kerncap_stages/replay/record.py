"""Makes the manifest of a replay."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kerncap_stages import __version__
from kerncap_stages.code.read import read_code_object
from kerncap_stages.digest import FileRef, ManifestRef
from kerncap_stages.manifests.environment import unquote_version
from kerncap_stages.manifests.kernel import CodeObject, count_blocks
from kerncap_stages.manifests.replay import LaunchShape, Overrides, Replay, ReplayPlan
from kerncap_stages.manifests.timing import TimeSource
from kerncap_stages.replay.foreign_code import name_foreign_code
from kerncap_stages.replay.timing import compare, summarise
from kerncap_stages.replay.variant import extract_variant_code

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.environment import Environment
    from kerncap_stages.manifests.kernel import Launch
    from kerncap_stages.manifests.source import Unedited
    from kerncap_stages.manifests.timing import Floor
    from kerncap_stages.replay.options import ReplayOptions
    from kerncap_stages.replay.report import ReplayResult
    from kerncap_stages.replay.variant_shape import VariantShape
    from kerncap_stages.store import Transaction


def make_replay_manifest(
    transaction: Transaction,
    digest: Digest,
    capture: Capture,
    options: ReplayOptions,
    result: ReplayResult,
    floor: Floor | None = None,
    unedited: Unedited | None = None,
) -> Replay:
    """Return the manifest of a replay, and put the variant's code object into the transaction.

    floor: what the dispatch must do at least, if known.
    unedited: whether the unedited source of the kernel compiles to the captured instructions, if known.
    """
    environment = _describe_environment(capture, result)
    software = environment.devices[0].software if environment.devices else False
    source = TimeSource.SOFTWARE_GPU if software else TimeSource.DEVICE
    baseline = summarise(result.baseline_ns, source, result.baseline_instructions, result.baseline_work)
    variant = summarise(result.variant_ns, source, result.variant_instructions, result.variant_work)
    comparison = compare(baseline, variant, unedited) if options.interleave and baseline and variant else None
    actual = capture.dispatch.device_index if options.device is None else options.device
    moved = ((capture.dispatch.device_index, actual),) if actual != capture.dispatch.device_index else ()
    return Replay(
        parents=(ManifestRef.to(digest),),
        made_by=f"kerncap-stages {__version__}",
        capture=ManifestRef.to(digest),
        environment=environment,
        variant=None if options.variant is None else _store_variant(transaction, options.variant, capture),
        plan=ReplayPlan(
            iterations=options.iterations,
            warmup=options.warmup,
            flush_cache=options.flush_cache,
            hip_launch=result.hip_launch,
            timeout_ns=None if options.timeout_s is None else int(options.timeout_s * 1e9),
            overrides=Overrides(
                grid_work_items=options.grid_work_items,
                block_work_items=options.block_work_items,
                dynamic_lds_bytes=options.dynamic_lds_bytes,
            ),
            variant_shape=find_other_shape(options.variant_shape, capture.launch),
            devices=moved,
        ),
        outcome=result.outcome,
        explanation=name_foreign_code(capture, result.explanation),
        exit_code=result.exit_code,
        exit_signal=result.exit_signal,
        timing=variant if options.variant is not None else baseline,
        comparison=comparison,
        floor=floor,
        impossible=result.impossible,
        matches_golden=result.matches_golden,
        restored_size_bytes=result.restored_size_bytes,
        restore_ns=result.restore_ns,
    )


def find_other_shape(shape: VariantShape | None, launch: Launch) -> LaunchShape | None:
    """Return how a variant is launched; None if that is as the captured kernel was."""
    if shape is None:
        return None
    grid, block, lds_bytes = shape.resolve(launch)
    if (grid, block, lds_bytes) == (
        launch.grid_work_items,
        launch.block_work_items,
        launch.dynamic_lds_bytes,
    ):
        return None
    return LaunchShape(
        grid_blocks=count_blocks(grid, block), block_work_items=block, dynamic_lds_bytes=lds_bytes
    )


def _describe_environment(capture: Capture, result: ReplayResult) -> Environment:
    """Describe the machine of the replay: the device from the report, the rest from the capture."""
    captured = capture.device
    device = captured.model_copy(
        update={
            "index": 0,
            "name": result.device_name or captured.name,
            "isa": result.device_isa or captured.isa,
            "software": captured.software
            if not result.device_name
            else "software" in result.device_name.lower(),
            "uuid": None,
            "pci_address": None,
        }
    )
    return capture.environment.model_copy(
        update={
            "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "runtime_version": unquote_version(result.runtime_version),
            "devices": (device,),
        }
    )


def _store_variant(transaction: Transaction, path: Path, capture: Capture) -> CodeObject:
    data = extract_variant_code(path.read_bytes(), capture)
    facts = read_code_object(data)
    return CodeObject(
        payload=FileRef.to(transaction.put_bytes(data)),
        size_bytes=len(data),
        format=facts.format,
        isa=facts.isa,
        abi_version=facts.abi_version,
    )
