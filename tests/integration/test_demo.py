"""The demo is the whole job, and it checks every answer: the verdicts and the page are read here too."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "tools/demo.py"


class Page(HTMLParser):
    """Cells of the tables of a page, and everything that it would load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.loads: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "data", "srcset")]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    if shutil.which("hipcc") is None:
        pytest.skip("needs hipcc: run it in the ROCm root")
    page = tmp_path_factory.mktemp("demo") / "page.html"
    done = subprocess.run(
        [sys.executable, DEMO],
        env=os.environ | {"KERNCAP_DEMO_PAGE": str(page)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done, page.read_text()


def test_the_demo_takes_a_kernel_through_the_whole_job(demo):
    verdicts = [line.strip() for line in demo[0].stderr.splitlines() if line.startswith("Result: ")]
    assert verdicts == [
        "Result: PASS  (byte-exact, 1 of 1 regions identical)",
        "Result: PASS  (byte-exact, 1 of 1 regions identical)",
        "Result: FAIL  (byte-exact, 0 of 1 regions identical, 1 differ)",
        "Result: FAIL  (byte-exact, 0 of 1 regions identical, 1 differ)",
    ]


def test_its_kernel_is_the_slowest(demo):
    first = next(line for line in demo[0].stderr.splitlines() if re.match(r" +1 +[\d.]+%", line))
    assert first.rstrip().endswith("demo::add_rows")


def test_it_ends_with_a_summary_that_says_what_its_ratio_is(demo):
    summary = demo[0].stdout.split("Done in", 1)[1]
    ratios = [
        float(found)
        for found in re.findall(r"accepted .* ([\d.]+) of the captured kernel's instructions", summary)
    ]
    unchanged, edited = ratios
    assert unchanged == 1.0
    assert edited < 1.0
    assert summary.count("REJECTED") == 2
    assert "times say nothing about hardware" in summary
    last = summary.splitlines()[-1]
    assert last.startswith("Next: the same with a program of yours")
    assert "docs/edit-loop.md, The short path" in last
    assert "## The short path\n" in (DEMO.parents[1] / "docs/edit-loop.md").read_text()


def test_its_page_stands_alone_and_shows_the_same(demo):
    page = Page()
    page.feed(demo[1])
    assert page.loads == []
    assert "script" not in page.tags
    assert {"svg", "rect"} <= page.tags
    stripped = [[cell.strip() for cell in row] for row in page.rows]
    cells = {row[0]: row[1:] for row in stripped if row}
    assert [cells[title][0] for title in ("unchanged source, rebuilt", "the sum in a register")] == [
        "accepted"
    ] * 2
    assert cells["one row is not written"][0] == "rejected"
    assert float(cells["the sum in a register"][1]) < 1.0
    assert "the worst at 0x" in cells["one row is not written"][2]
    assert "This machine has no GPU" in demo[1]
    assert "demo::add_rows(float const*" in demo[1]


def test_nothing_in_a_page_is_taken_for_markup(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(DEMO.parent)
    from demo_page import Attempt, Chapter, Command, Run, write_page

    evil = "<script>alert(1)</script>"
    region = {
        "name": evil, "base_address": 0, "passed": False, "elements_out_of_bounds": 1, "elements": 2,
        "element_type": "bytes", "worst": {"address": 3, "expected": evil, "actual": evil}, "heat": [0, 5, 1],
    }  # fmt: skip
    attempt = Attempt(evil, {"passed": False, "regions": [region]}, None, evil)
    chapter = Chapter(evil, [Command(evil, 1, evil, evil)], [evil])
    kernels = [{"name": evil, "calls": 1, "share": 1.0}]
    run = Run(evil, True, evil, evil, [chapter], [attempt], kernels)
    write_page(run, tmp_path / "page.html")
    page = Page()
    page.feed((tmp_path / "page.html").read_text())
    assert "script" not in page.tags
    assert {"svg", "rect"} <= page.tags
    assert any(evil in cell for row in page.rows for cell in row)
