"""Progress bars: seen while something is on its way, and never beside what a program writes meanwhile."""

import io
import sys

import pytest

from kerncap_stages.cli.progress import Lines, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch) -> Terminal:
    """Called by the test itself: pytest sets sys.stderr again after fixtures."""
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_nothing_is_drawn_before_the_first_report_and_after_the_last(monkeypatch):
    terminal = on_terminal(monkeypatch)
    with progress("capture", counts_bytes=True) as report:
        assert terminal.getvalue() == ""
        report(1 << 20, 4 << 20)
        assert "capture" in terminal.getvalue()
        report(4 << 20, 4 << 20)
        done = terminal.getvalue()
        assert done.endswith("\x1b[2K")  # the line is free again
    assert terminal.getvalue() == done


def test_sizes_are_in_the_units_of_every_page(monkeypatch):
    terminal = on_terminal(monkeypatch)
    with progress("capture", counts_bytes=True) as report:
        report(1 << 20, 4 << 20)
    assert "1.0/4.2 MB" not in terminal.getvalue()
    assert "MiB" in terminal.getvalue()


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("kerncap_stages.cli.progress.time.monotonic", lambda: now[0])
    return now


def test_lines_tell_speed_and_time_left_every_two_seconds(clock):
    said: list[str] = []
    lines = Lines("capture", said.append)
    for tenths in range(61):
        clock[0] = tenths / 10
        lines.report((tenths + 1) * 100 << 20, 10_100 << 20)
    assert said == [
        "capture: 1.07 GiB of 9.86 GiB, 1.05 GB/s, 10 s left",
        "capture: 3.03 GiB of 9.86 GiB, 1.05 GB/s, 8 s left",
        "capture: 4.98 GiB of 9.86 GiB, 1.05 GB/s, 6 s left",
    ]


@pytest.mark.parametrize(("mebibytes", "count"), [(4, 0), (31, 0), (32, 1)])
def test_of_what_is_quickly_done_only_the_end_is_told_and_only_if_it_is_large(clock, mebibytes, count):
    said: list[str] = []
    lines = Lines("capture", said.append)
    for done in (1, mebibytes):
        clock[0] += 0.1
        lines.report(done << 20, mebibytes << 20)
    assert len(said) == count


def test_each_capture_is_timed_by_itself(clock):
    said: list[str] = []
    lines = Lines("capture", said.append)
    for done in (32, 64, 32, 64):
        clock[0] += 1.0 if len(said) == 1 else 0.1
        lines.report(done << 20, 64 << 20)
    assert said == ["capture: 64.0 MiB of 64.0 MiB, 0.34 GB/s", "capture: 64.0 MiB of 64.0 MiB, 0.03 GB/s"]
