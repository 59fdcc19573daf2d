"""The process that runs a user's reference."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from kerncap_stages.store import Store
from kerncap_stages.validate.precision.child import JOB, RESULT


@pytest.mark.parametrize("is_there", [True, False])
def test_a_reference_runs_only_while_its_parent_is_there(tmp_path, is_there):
    """A parent that is killed before its child asks for a signal at that leaves it to run on."""
    job = {
        "name": "reference.py",
        "text": "def reference(arguments):\n    raise ValueError('it runs')\n",
        "store": str(Store.open(tmp_path / "store", create=True).root),
        "arguments": [],
        "grid_blocks": [1, 1, 1],
        "block_work_items": [1, 1, 1],
    }
    (tmp_path / JOB).write_text(json.dumps(job))
    parent = os.getpid() if is_there else os.getpid() + 1
    words = [sys.executable, "-P", "-m", "kerncap_stages.validate.precision.child", tmp_path, str(parent)]
    subprocess.run(words, check=True, timeout=60)
    assert (tmp_path / RESULT).exists() == is_there
    if is_there:
        assert "it runs" in (tmp_path / RESULT).read_text()
