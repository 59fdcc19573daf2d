"""The shape of a CUDA launch, from the lines that the capture library sends of it."""

from __future__ import annotations

import pytest
from messages import capture_message

from kerncap_stages.code.kernel_facts import KernelFacts
from kerncap_stages.collect.launch_facts import describe_launch
from kerncap_stages.collect.wire import ProtocolError
from kerncap_stages.manifests.kernel import CodeObjectFormat, Registers

FACTS = KernelFacts("k", (), 0, None, 0, 0, False, 32, Registers(), None, None, 0, 0, None)


def launch(text: str):
    sent = capture_message(
        grid_work_items=(1 << 33, 1, 1), block_work_items=(1024, 1, 1), packet=text.encode()
    )
    return describe_launch(sent, FACTS, CodeObjectFormat.CUBIN)


def test_attributes_have_names_and_the_bytes_that_the_program_gave():
    made = launch("stack_limit=1024\ncluster=2,1,1\nattribute=6:01ff\nattribute=99:00\n")
    assert made.grid_blocks == (1 << 23, 1, 1)
    assert made.cluster_blocks == (2, 1, 1)
    assert made.attributes == {
        "stack_limit": "1024",
        "programmatic_stream_serialization": "01ff",
        "launch_attribute_99": "00",
    }


def test_a_line_without_a_value_is_refused():
    with pytest.raises(ProtocolError, match="by an unknown line"):
        launch("nonsense\n")
