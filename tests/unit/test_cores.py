"""Many calls on several cores."""

from __future__ import annotations

import os
import time
from functools import partial

import pytest

from kerncap_stages.machine.cores import do_all, map_all


@pytest.fixture(params=[1, 2, 16])
def cores(request, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(request.param)))


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_each_call_is_made_once(count):
    made = []
    do_all([partial(made.append, number) for number in range(count)])
    assert sorted(made) == list(range(count))


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_results_are_in_the_order_of_the_items(count):
    def work(number):
        time.sleep(0.001 * (number % 3))
        return -number

    assert map_all(work, range(count)) == [-number for number in range(count)]


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_no_call_is_begun_after_an_error(error):
    made = []

    def fail():
        raise error

    def work(number):
        time.sleep(0.005)
        made.append(number)

    with pytest.raises(error):
        do_all([fail, *(partial(work, number) for number in range(200))])
    assert len(made) < 100  # those of the other of two threads
