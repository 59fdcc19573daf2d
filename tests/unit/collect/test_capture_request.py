"""Which kernel of a profile is captured when nobody names one, and what is said about it."""

from __future__ import annotations

import dataclasses

import pytest
from manifest_examples import digest
from manifest_examples import profile as example_profile

from kerncap_stages.cli.flows.capture import CaptureArguments
from kerncap_stages.collect.capture_request import (
    choose_from_profile,
    choose_main_shapes,
    warn_of_unprofiled_names,
)
from kerncap_stages.manifests.capture import NameMatch, Selection
from kerncap_stages.manifests.timing import TimeSource

FILL = "__amd_rocclr_fillBufferAligned"


def chosen(*names, rank=None):
    base = example_profile()
    kernels = tuple(base.kernels[0].model_copy(update={"name": name, "mangled_name": None}) for name in names)
    said: list[str] = []
    profile = base.model_copy(update={"kernels": kernels})
    request = choose_from_profile(digest("profile"), profile, ("./app",), rank, (), said.append)
    ((name, _),) = request.kernels
    return name, said


def test_hips_own_kernels_are_passed_over_and_that_is_said():
    name, (said,) = chosen(FILL, "scale(float*)")
    assert name == "scale(float*)"
    assert FILL in said


@pytest.mark.parametrize("names", [(FILL,), (FILL, "__amd_rocclr_copyBuffer")])
def test_a_program_without_kernels_of_its_own_hears_of_it(names):
    name, (said,) = chosen(*names)
    assert name == FILL
    assert "no kernel of its own" in said
    assert "--offload-arch" in said


def test_what_is_asked_for_by_rank_is_taken_without_a_word():
    assert chosen(FILL, "scale(float*)", rank=1) == (FILL, [])


@pytest.mark.parametrize(
    ("match", "pattern", "mangled_names", "told"),
    [
        (NameMatch.SUBSTRING, "scale", True, None),
        (NameMatch.SUBSTRING, "scael", True, "similar names: scale"),
        (NameMatch.MANGLED, "_Z5scalePfS_S_fi", True, None),
        (NameMatch.MANGLED, "scale", True, "similar names: _Z5scale"),
        (NameMatch.MANGLED, "_Z5scalePfS_S_fi", False, None),  # another profiler's
    ],
)
def test_names_that_a_profile_lacks(match, pattern, mangled_names, told):
    profile = example_profile()
    if mangled_names:
        symbols = ("_Z5scalePfS_S_fi", "_Z4fillPi")
        kernels = [
            kernel.model_copy(update={"mangled_name": symbol})
            for kernel, symbol in zip(profile.kernels, symbols, strict=True)
        ]
        profile = profile.model_copy(update={"kernels": tuple(kernels)})
    request = choose_from_profile(digest("profile"), profile, None, None, (pattern,), print)
    found = list(warn_of_unprofiled_names(request, [Selection(match=match, pattern=pattern)]))
    assert len(found) == (told is not None)
    assert told is None or told in found[0]


def in_shapes(shapes, last=None, source=TimeSource.DEVICE, **asked):
    """What is asked for of a kernel that was launched in some shapes: (blocks, block, LDS, calls, ns)."""
    base = example_profile()
    launches = [
        base.kernels[0]
        .launch_shapes[0]
        .model_copy(
            update={
                "grid_blocks": (blocks, 1, 1),
                "grid_work_items": (blocks * block, 1, 1),
                "block_work_items": (block, 1, 1),
                "lds_bytes": lds,
                "calls": calls,
                "total_ns": total_ns,
            }
        )
        for blocks, block, lds, calls, total_ns in shapes
    ]
    update = {"launch_shapes": tuple(launches), "last_shape": last}
    kernels = (base.kernels[0].model_copy(update=update),)
    profile = base.model_copy(update={"kernels": kernels, "time_source": source})
    name = profile.kernels[0].name
    request = choose_from_profile(digest("profile"), profile, ("./app",), None, (name,), print)
    said: list[str] = []
    selection = Selection(match=NameMatch.EXACT, pattern=name, **asked)
    ((selection),) = choose_main_shapes(request, [selection], said.append)
    return selection.grid_blocks, selection.block_work_items, said


def test_the_shape_in_which_a_kernel_spent_most_time_is_taken():
    # The most frequent one is not it, and two differ in nothing but LDS.
    shapes = [(1, 64, 0, 100, 300), (8, 64, 0, 1, 200), (8, 64, 512, 1, 200), (4, 64, 0, 1, 250)]
    grid, block, (said,) = in_shapes(shapes, last=3)
    assert (grid, block) == ((8, 1, 1), (64, 1, 1))
    assert "launched in 3 shapes" in said
    assert "42% of the kernel's time" in said
    assert "`kc-capture … --grid-blocks 4,1,1 --block 64,1,1` captures the shape of the last launch" in said


@pytest.mark.parametrize("times", [(30, 50, 20), (60, 30, 26), (40, 40, 40), (2, 0.6, 0.1)])
def test_times_of_the_software_gpu_that_come_close_do_not_decide(times):
    """They change from run to run; the work-items that were launched do not."""
    shapes = [
        (8, 64, 0, 1, int(times[0] * 1e6)),
        (4, 64, 0, 5, int(times[1] * 1e6)),
        (1, 64, 0, 1, int(times[2] * 1e6)),
    ]
    grid, _, (said,) = in_shapes(shapes, source=TimeSource.SOFTWARE_GPU)
    assert grid == (4, 1, 1)
    assert "other shapes took about as long on the software GPU but launched fewer work-items" in said
    grid, _, (said,) = in_shapes([(2, 64, 0, 1, 142 * 10**6), *shapes], source=TimeSource.SOFTWARE_GPU)
    assert grid == (2, 1, 1)
    assert "took about as long" not in said


def test_one_shape_and_a_shape_that_the_user_names_are_left_alone():
    assert in_shapes([(1, 64, 0, 2, 10), (1, 64, 512, 1, 10)]) == (None, None, [])
    two = [(1, 64, 0, 2, 10), (2, 64, 0, 1, 30)]
    assert in_shapes(two, grid_blocks=(1, 0, 0)) == ((1, 0, 0), None, [])


@pytest.mark.parametrize("configuration", [None, "SIZE=32"])
def test_cases_of_one_configuration_are_not_those_of_all(configuration):
    profile = example_profile()
    request = choose_from_profile(
        digest("profile"), profile, ("./app",), None, (profile.kernels[0].name,), print
    )
    nothing = dict.fromkeys(field.name for field in dataclasses.fields(CaptureArguments))
    given = {"exact": True, "regex": False, "mangled": False, "cases": 4, "count": 1, "every": 1}
    given["configuration"] = configuration
    (selection,) = CaptureArguments(**(nothing | given)).make_selections(request)
    assert selection.by_case
    assert bool(selection.cases) == (configuration is None)
    assert configuration is None or selection.count == 4
