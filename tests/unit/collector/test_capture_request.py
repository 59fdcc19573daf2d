"""Which kernel of a profile is captured when nobody names one, and what is said about it."""

from __future__ import annotations

import pytest
from manifest_examples import digest
from manifest_examples import profile as example_profile

from kerncap_stages.collector.capture_request import from_profile, names_not_profiled
from kerncap_stages.manifests.capture import NameMatch, Selection

FILL = "__amd_rocclr_fillBufferAligned"


def chosen(*names, rank=None):
    base = example_profile()
    kernels = tuple(base.kernels[0].model_copy(update={"name": name, "mangled_name": None}) for name in names)
    said: list[str] = []
    profile = base.model_copy(update={"kernels": kernels})
    request = from_profile(digest("profile"), profile, ("./app",), rank, (), said.append)
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
        (NameMatch.SUBSTRING, "scael", True, "these come close: scale"),
        (NameMatch.MANGLED, "_Z5scalePfS_S_fi", True, None),
        (NameMatch.MANGLED, "scale", True, "these come close: _Z5scale"),
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
    request = from_profile(digest("profile"), profile, None, None, (pattern,), print)
    found = list(names_not_profiled(request, [Selection(match=match, pattern=pattern)]))
    assert len(found) == (told is not None)
    assert told is None or told in found[0]
