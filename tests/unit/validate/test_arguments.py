import numpy as np
import pytest
from manifest_examples import capture as example_capture

from kerncap_stages.digest import MemoryRef
from kerncap_stages.store import Store
from kerncap_stages.validate.arguments import Pointer, Span, cut_region
from kerncap_stages.validate.perturb.states import Perturbation, Trial, perturb


@pytest.fixture
def region():
    base = example_capture().regions[0]
    return base.model_copy(
        update={"base_address": 0x1000, "size_bytes": 256, "written": (), "read_only": False}
    )


def pointer(address, kind, label="x"):
    return Pointer(label, address, kind, is_const=False)


def test_a_region_that_nothing_points_to_is_unknown(region):
    assert cut_region(region, [pointer(0x2000, "fp32")]) == (Span(0, 256, None),)


def test_one_type_holds_for_the_whole_region(region):
    found = cut_region(region, [pointer(0x1010, "fp32", "a"), pointer(0x1080, "fp32", "b")])
    assert found == (Span(0, 256, "fp32", "a, b"),)


def test_a_pool_is_cut_where_arguments_point(region):
    found = cut_region(region, [pointer(0x1080, "int32", "b"), pointer(0x1010, "fp32", "a")])
    assert found == (Span(0, 16, None), Span(16, 128, "fp32", "a"), Span(128, 256, "int32", "b"))


def test_two_types_at_one_address_are_none(region):
    (found,) = cut_region(region, [pointer(0x1000, "fp32"), pointer(0x1000, "int32")])
    assert found.element_type is None


def test_elements_that_do_not_begin_where_they_should_are_none(region):
    (found,) = cut_region(region, [pointer(0x1002, "fp64")])
    assert found.element_type is None


@pytest.mark.parametrize("kind", ["fp64", "fp32", "fp16", "bf16", "int32", None])
@pytest.mark.parametrize(
    ("change", "gently"),
    [
        (Perturbation.LIGHT, False),
        (Perturbation.LIGHT, True),
        (Perturbation.LIGHT_MAGNITUDE, False),
        (Perturbation.STRONG, True),
    ],
)
def test_a_change_reaches_every_element(tmp_path, region, kind, change, gently):
    store = Store.open(tmp_path / "store")
    before = np.arange(1, 33, dtype=np.float64).view(np.uint8)
    with store.begin_transaction() as transaction:
        state = MemoryRef.to(transaction.put_memory(before))
        region = region.model_copy(update={"pre": state, "post": state})
        transaction.publish_objects()
        made = perturb(store, transaction, Trial(region, change, (Span(0, 256, kind),), gently))
        transaction.publish_objects()
        after = store.read_memory(made.digest)
    size = {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2, "int32": 4, None: 1}[kind]
    assert (before != after).reshape(-1, size).any(axis=1).all()
    if change is Perturbation.LIGHT and not gently and kind in ("fp64", "int32"):
        assert ((before ^ after) == 1).all()
    elif change is not Perturbation.STRONG and kind == "fp64":
        ratio = after.view(np.float64) / before.view(np.float64)
        assert ((ratio > 0.49) & (ratio < 2.01)).all()


def test_only_what_is_written_changes_where_no_more_is_borne(tmp_path, region):
    store = Store.open(tmp_path / "store")
    before = np.zeros(256, np.uint8)
    with store.begin_transaction() as transaction:
        update = {"pre": MemoryRef.to(transaction.put_memory(before)), "written": ((8, 4), (100, 1))}
        region = region.model_copy(update=update)
        transaction.publish_objects()
        made = perturb(
            store, transaction, Trial(region, Perturbation.LIGHT_WRITTEN, (Span(0, 256, "int32"),))
        )
        transaction.publish_objects()
        after = store.read_memory(made.digest)
    assert np.flatnonzero(after).tolist() == [8, 9, 10, 11, 100]
