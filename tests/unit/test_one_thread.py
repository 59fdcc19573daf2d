"""How a verdict imports numpy."""

import os
import subprocess
import sys

import pytest

_COUNT = """
import os
from kerncap_stages.machine.one_thread import import_numpy
import_numpy()
import numpy
print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))
"""


def count_threads(**variables):
    clean = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", _COUNT], env=clean | variables, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="numpy starts no threads on one processor")
@pytest.mark.parametrize(
    ("chosen", "counted"),
    [
        ({}, ["1", "None"]),
        ({"OPENBLAS_NUM_THREADS": "2"}, ["2", "2"]),
        ({"OMP_NUM_THREADS": "2"}, ["2", "None"]),
    ],
)
def test_numpy_comes_without_threads_unless_the_user_chose_their_number(chosen, counted):
    assert count_threads(**chosen) == counted
