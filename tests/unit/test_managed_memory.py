"""What is known of managed memory gets from the capture library to the replayer."""

from __future__ import annotations

import numpy as np
from manifest_examples import capture as example_capture
from messages import region_message

from kerncap_stages.collect import protocol
from kerncap_stages.collect.captured_memory import SentRegion, describe_regions
from kerncap_stages.collect.protocol import NO_DEVICE, RegionFlag
from kerncap_stages.manifests.capture import Reach
from kerncap_stages.replay.plan import PlanFiles, write_plan

BASE = 0x7F0000000000
# As native/replay/plan.hpp numbers them.
STAYS_ON_HOST, READ_MOSTLY = RegionFlag.STAYS_ON_HOST, RegionFlag.READ_MOSTLY
PLANNED = {STAYS_ON_HOST: 2, READ_MOSTLY: 4, STAYS_ON_HOST | READ_MOSTLY: 6, 0: 0}


def test_where_managed_memory_stays_is_in_manifest_and_plan(store, tmp_path):
    for sent, planned in PLANNED.items():
        with store.begin_transaction() as transaction:
            state = transaction.put_memory(np.arange(16, dtype=np.float32))
            managed = region_message(
                kind=protocol.MemoryKind.MANAGED, device=NO_DEVICE, flags=sent, base=BASE, size_bytes=64
            )
            region = SentRegion(managed, pre=state, post=state)
            regions = describe_regions(transaction, [region], Reach.ALL)
            transaction.publish_objects()
        assert ("stays_on_host" in regions[0].flags) == bool(sent & STAYS_ON_HOST)
        assert ("read_mostly" in regions[0].flags) == bool(sent & READ_MOSTLY)
        capture = example_capture().model_copy(
            update={"regions": regions, "module_variables": (), "loaded_code_objects": ()}
        )
        write_plan(store, capture, PlanFiles(baseline=tmp_path / "code"), tmp_path / "plan")
        (line,) = [
            each for each in (tmp_path / "plan").read_text().splitlines() if each.startswith("region ")
        ]
        assert int(line.split()[6]) == planned
