"""Progress bars: seen while something is on its way, and never beside what a program writes meanwhile."""

import io
import sys

from kerncap_stages.progress import progress


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
