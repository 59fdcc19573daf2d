"""Variants as cubin, PTX and fatbin, and what validation says of them."""

from __future__ import annotations

import pytest


@pytest.fixture
def capture(kc, built):
    return kc.capture("vector_add", built["vector_add"], dispatch=1)


@pytest.mark.parametrize("form", ["cubin", "ptx", "fatbin"])
def test_a_right_variant_passes(kc, built, capture, form):
    done = kc.run("kc-validate", capture, "--variant", built[f"same.{form}"])
    assert done.code == 0, done.err


@pytest.mark.parametrize("name", ["wrong", "nothing", "stray", "faulting"])
def test_a_bad_variant_fails(kc, built, capture, name):
    done = kc.run("kc-validate", capture, "--variant", built[f"{name}.cubin"])
    assert done.code == 1, done.err
    assert "FAIL" in done.err


def test_a_capture_of_another_gpu_is_refused(kc, capture):
    # The same capture, said to be of another architecture.
    import json

    from kerncap_stages.manifests import dump
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.store import Store

    manifest = kc.show(capture)
    for device in manifest["environment"]["devices"]:
        device["isa"] = device["target"] = device["architecture"] = "sm_75"
    store = Store.open(kc.store)
    with store.transaction() as transaction:
        moved = transaction.publish(dump(Capture.model_validate_json(json.dumps(manifest))), "capture", [])
    done = kc.run("kc-replay", moved)
    assert done.code == 6
    assert "sm_75" in done.err
