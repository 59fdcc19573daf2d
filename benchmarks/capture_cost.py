"""What profiling and capturing cost a program.

usage, in the ROCm root: python benchmarks/capture_cost.py [--json] [--size-mib 512]

Where the machine has no AMD GPU the speed of dispatches and copies is the software GPU's, and only what the
callback costs is as on hardware. Each figure is the median of its rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests/helpers"))

from programs import SOURCES, Build, Program, compile_once

from kerncap_stages.collector.program import ProgramSpec
from kerncap_stages.collector.protocol import Mode, Rule
from kerncap_stages.collector.server import Collector, Settings
from kerncap_stages.native_paths import LIBRARY_FOLDER
from kerncap_stages.softgpu import SoftGpu
from kerncap_stages.stages.capture import CaptureOptions, run_capture
from kerncap_stages.store import Store

ROUNDS = 5
GIB = 1 << 30


class Silent:
    """A session that wants nothing, and says so."""

    def __init__(self, connection: Any, _emit: Any) -> None:
        self._connection = connection

    def hear(self, kind: Any, reader: Any) -> None:
        """Answer what has to be answered."""
        from kerncap_stages.collector.protocol import Up, selected

        if kind is Up.MODULE_END:
            self._connection.send(selected(reader.u64(), False, []))

    def idle(self) -> None:
        """Make room for records."""
        self._connection.shared.take_records()

    def close(self) -> None:
        """Take the last records."""
        self.idle()


def program(name: str) -> Path:
    """Path of a test program for gfx90a."""
    source = next(iter(SOURCES.glob(f"*/{name}.*")))
    return compile_once(Build(Program(source), "gfx90a" if source.suffix == ".hip" else "", "O3"))


def watched(command: list[object], mode: Mode) -> tuple[str, float]:
    """What a program prints under a collector that wants nothing, and the seconds that it took."""
    with tempfile.NamedTemporaryFile() as printed:
        words = tuple(str(word) for word in command)
        spec = ProgramSpec(words, environment=SoftGpu("gfx90a").environment(), stdout=Path(printed.name))
        begin = time.perf_counter()
        collector = Collector(spec, Settings(mode, rules=[Rule()]), Silent)
        try:
            for _ in collector.events(300):
                pass
        finally:
            collector.close()
        return Path(printed.name).read_text(), time.perf_counter() - begin


def plain(command: list[object]) -> tuple[str, float]:
    """The same without us."""
    begin = time.perf_counter()
    words = [str(word) for word in command]
    environment = SoftGpu("gfx90a").environment()
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return done.stdout, time.perf_counter() - begin


def number(text: str, name: str) -> float:
    """The number that a program printed after a name."""
    found = re.search(rf"^{name} ([\d.]+)$", text, re.MULTILINE)
    assert found is not None, text
    return float(found[1])


def callback_ns() -> dict[str, float]:
    """Of a dispatch that nobody wants: one packet a call, a graph of 80, and two threads at once."""
    bench = LIBRARY_FOLDER / "callback_bench"
    figures = {}
    for name, words in (
        ("single", (2_000_000, 1, 1)),
        ("batch of 80", (50_000, 80, 1)),
        ("two threads", (1_000_000, 1, 2)),
    ):
        texts = [watched([bench, *words], Mode.CAPTURE)[0] for _ in range(ROUNDS)]
        assert all("counted 1" in text for text in texts)
        if words[2] == 1:
            assert all(number(text, "allocations") == 0 for text in texts)
        figures[name] = statistics.median(number(text, "ns_per_dispatch") for text in texts)
    return figures


def dispatches_per_s() -> dict[str, float]:
    """Of an empty kernel, one after another: plain, watched for a capture, profiled."""
    command: list[object] = [program("many_dispatches"), 20_000, 0]
    ways = {
        "plain": lambda: plain(command),
        "capture": lambda: watched(command, Mode.CAPTURE),
        "profile": lambda: watched(command, Mode.PROFILE),
    }
    rounds = [
        {name: number(way()[0], "dispatches_per_s") for name, way in ways.items()} for _ in range(ROUNDS)
    ]
    return {name: statistics.median(each[name] for each in rounds) for name in ways}


def start_up_s() -> dict[str, float]:
    """Of a program that runs one kernel: alone, and how much longer it takes under us."""
    command: list[object] = [program("many_dispatches"), 1, 0]
    rounds = [(plain(command)[1], watched(command, Mode.CAPTURE)[1]) for _ in range(ROUNDS)]
    return {
        "plain": statistics.median(alone for alone, _ in rounds),
        "more under capture": statistics.median(ours - alone for alone, ours in rounds),
    }


def capture_gb_per_s(size_mib: int) -> dict[str, float]:
    """Of device memory that does not compress, into an empty store."""
    from kerncap_stages.manifests.capture import NameMatch, Selection

    with tempfile.TemporaryDirectory(dir=os.environ.get("KERNCAP_BENCH_DIR")) as folder:
        store = Store.open(Path(folder) / "store")
        spec = ProgramSpec(
            (str(program("large")), str(size_mib)), environment=SoftGpu("gfx90a").environment()
        )
        options = CaptureOptions((Selection(match=NameMatch.SUBSTRING, pattern="target("),))
        ((_, capture),) = run_capture(store, spec, options)
    cost = capture.cost
    return {
        "pre-state": cost.copied_size_bytes / cost.pre_copy_ns,
        "post-state": cost.copied_size_bytes / cost.post_copy_ns,
        "held_s": cost.held_ns / 1e9,
        "extra_resident_mib": (cost.extra_resident_bytes or 0) / (1 << 20),
    }


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--size-mib", type=int, default=512, help="device memory of the captured program")
    options = parser.parse_args()
    figures = {
        "callback, ns for each dispatch (bar: 1000)": callback_ns(),
        "empty kernels a second": dispatches_per_s(),
        "start-up, s (bar: 0.3 more)": start_up_s(),
        f"capture of {options.size_mib} MiB, GB/s": capture_gb_per_s(options.size_mib),
    }
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for title, values in figures.items():
        print(title)
        for name, value in values.items():
            print(f"  {name:20} {value:12,.3f}")


if __name__ == "__main__":
    main()
