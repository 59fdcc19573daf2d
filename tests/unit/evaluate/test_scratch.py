"""Where a worker's store and its replays' files are."""

from __future__ import annotations

import pytest

from kerncap_stages.errors import DeviceError, StoreError
from kerncap_stages.evaluate import scratch as scratch_module
from kerncap_stages.evaluate.scratch import ScratchMaker
from kerncap_stages.machine.temporary import PREFIX
from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import Capture

MIB = 1 << 20


@pytest.fixture
def make(store, capture, tmp_path, monkeypatch):
    """Make a worker's scratch for a capture of so many bytes, where memory has so much room."""
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(scratch_module, "_IN_MEMORY", memory)
    made = load_as(store, capture, Capture)

    def make_one(size_bytes, room_bytes=1 << 40):
        monkeypatch.setattr(
            scratch_module, "_has_room", lambda _place, needed_bytes: needed_bytes <= room_bytes
        )
        region = made.regions[0].model_copy(update={"size_bytes": size_bytes})
        return ScratchMaker(store, [capture], [made.model_copy(update={"regions": (region,)})]).make()

    return make_one


def test_files_of_small_replays_are_in_memory_and_go_with_the_store(make):
    scratch = make(4 * MIB)
    assert scratch.in_memory
    assert scratch.temporary.is_dir()
    assert scratch.temporary.parent == scratch.store.root.parent == scratch.folder.path
    scratch.remove()
    assert not scratch.folder.path.exists()


@pytest.mark.parametrize(("size_bytes", "room_bytes"), [(33 * MIB, 1 << 40), (20 * MIB, 300 * MIB)])
def test_files_of_large_replays_are_on_the_disk(make, size_bytes, room_bytes):
    scratch = make(size_bytes, room_bytes)
    assert scratch.in_memory
    assert scratch.temporary is None
    scratch.remove()


def test_without_room_in_memory_all_is_on_the_disk(make):
    scratch = make(4 * MIB, 100 * MIB)
    assert not scratch.in_memory
    assert scratch.temporary is None
    scratch.remove()


def test_memory_that_fills_while_the_store_is_copied_is_left_again(make, monkeypatch, tmp_path):
    copy = scratch_module.copy_closure

    def copy_to_disk_only(store, roots, to):
        if (tmp_path / "memory") in to.root.parents:
            raise StoreError("No space left on device")
        copy(store, roots, to)

    monkeypatch.setattr(scratch_module, "copy_closure", copy_to_disk_only)
    scratch = make(4 * MIB)
    assert not scratch.in_memory
    assert list((tmp_path / "memory").iterdir()) == []
    scratch.remove()


def test_what_a_killed_run_left_in_memory_is_removed_even_if_it_fills_it(make, tmp_path):
    left = tmp_path / f"memory/{PREFIX}evaluate-left"
    left.mkdir()
    make(4 * MIB, 0).remove()
    assert not left.exists()


def test_a_disk_without_room_for_a_copy_is_named_as_what_it_is(make, monkeypatch):
    def fail(*_):
        raise StoreError("cannot write: No space left on device")

    monkeypatch.setattr(scratch_module, "copy_closure", fail)
    with pytest.raises(DeviceError, match="No space left") as raised:
        make(4 * MIB)
    assert "TMPDIR" in raised.value.hint
