"""What the collector makes of the end of a conversation."""

from __future__ import annotations

import os
import subprocess
import sys

from kerncap_stages.collect.connection import has_memory


def test_a_process_that_has_ended_has_no_memory_though_it_is_still_listed():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert not has_memory(ended.pid)
    ended.wait()
    assert has_memory(os.getpid())
