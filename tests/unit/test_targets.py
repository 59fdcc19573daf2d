"""GPU targets in every spelling, and as ELF headers say them."""

import pytest

from kerncap_stages.code.targets import Target, find_processor, parse_elf_target, parse_target


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("gfx90a", Target("", "gfx90a")),
        ("gfx90a:xnack-", Target("", "gfx90a", ("xnack-",))),
        ("sm_90a", Target("", "sm_90a")),
        (
            "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-",
            Target("amdgcn-amd-amdhsa", "gfx90a", ("sramecc+", "xnack-")),
        ),
        ("amdgcn-amd-amdhsa-unknown-gfx942", Target("amdgcn-amd-amdhsa", "gfx942")),
        (
            "amdgpu9.0a-amd-amdhsa-unknown-gfx90a:xnack+",
            Target("amdgpu9.0a-amd-amdhsa", "gfx90a", ("xnack+",)),
        ),
        ("amdgcn-amd-amdhsa--gfx9-4-generic", Target("amdgcn-amd-amdhsa", "gfx9-4-generic")),
        ("gfx11-generic", Target("", "gfx11-generic")),
        ("hipv4-amdgcn-amd-amdhsa--gfx1100", Target("hipv4-amdgcn-amd-amdhsa", "gfx1100")),
        ("hip-amdgcn-amd-amdhsa-gfx906", Target("hip-amdgcn-amd-amdhsa", "gfx906")),
    ],
)
def test_every_spelling_names_triple_processor_and_features(name, target):
    assert parse_target(name) == target
    assert find_processor(name) == target.processor


@pytest.mark.parametrize(
    "name", ["", "unknown", "host-x86_64-unknown-linux-gnu-", "gfx90a;id", "gfx90a\n", "gfx90a:", "--", "sm_"]
)
def test_what_names_no_gpu_is_no_target(name):
    assert parse_target(name) is None
    assert find_processor(name) == name


def test_a_target_has_the_names_that_compilers_and_rocr_give_it():
    target = parse_target("amdgpu9.0a-amd-amdhsa-unknown-gfx90a:sramecc+:xnack-")
    assert str(target) == "gfx90a:sramecc+:xnack-"
    assert target.isa == "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"
    assert target.has_feature("sramecc") is True
    assert target.has_feature("xnack") is False
    assert target.has_feature("wgp") is None


def test_code_runs_on_a_device_that_has_its_features():
    device = parse_target("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-")
    assert parse_target("gfx90a").runs_on(device)
    assert parse_target("hip-amdgcn-amd-amdhsa-gfx90a:xnack-").runs_on(device)
    assert not parse_target("gfx90a:xnack+").runs_on(device)
    assert not parse_target("gfx942").runs_on(device)


@pytest.mark.parametrize(
    ("e_flags", "abi_version", "text"),
    [
        (0x53F, 2, "gfx90a"),  # sramecc and xnack: any
        (0xE3F, 2, "gfx90a:sramecc+:xnack-"),
        (0xB4C, 4, "gfx942:sramecc-:xnack+"),
        (0x041, 3, "gfx1100"),  # neither is supported
        (0x330, 1, "gfx908:sramecc+:xnack+"),  # code object version 3: a bit each
        (0x02F, 1, "gfx906"),
    ],
)
def test_an_elf_header_says_processor_and_features(e_flags, abi_version, text):
    assert str(parse_elf_target(e_flags, abi_version)) == text


def test_a_processor_that_came_later_is_not_guessed():
    assert parse_elf_target(0x5FE, 2) is None
