"""kc-evaluate keeps a process of the GPU's driver: verdicts are those of kc-validate, whatever ran before."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from nvidia_gpu import architecture
from programs import Build, Program, compile_all

HERE = Path(__file__).parent
_LOOK_S = 0.005
SPINS = ("right", "wrong", "faults", "hangs")
LEAVES = ("marks", "finds", "allocates", "prints", "recurses")
FEW = "-few"  # words of local memory: what each context has at its start is enough
RIGHT = {"right", "marks", "marks-few", "allocates", "prints", "recurses"}


class ReplayerWatch:
    """The replayers that were seen while a ``with`` block runs, by process id, and how each was started."""

    def __init__(self) -> None:
        self.seen: dict[int, str] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def count(self, how: str) -> int:
        return sum(each == how for each in self.seen.values())

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_S):
            for each in Path("/proc").iterdir():
                if not each.name.isdigit() or int(each.name) in self.seen:
                    continue
                try:
                    words = (each / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if words[0].endswith(b"/kc-replay-cuda") and len(words) > 1:
                    how = words[1].decode(errors="replace")
                    self.seen[int(each.name)] = how if how.startswith("--") else "plan"


def make(folder: Path, *ways: str) -> dict[str, str]:
    """Variants in this order, each another code object; their names, and what each has to be."""
    builds = {}
    for number, way in enumerate(ways):
        is_spin = way in SPINS
        source = HERE / ("variants/spins.cu" if is_spin else "variants/leaves.cu")
        number_of_way = (SPINS if is_spin else LEAVES).index(way.removesuffix(FEW))
        defines = (f"WAY={number_of_way}", f"NS={60_000 + 2_000 * number}")
        defines += ("WORDS=128",) if way.endswith(FEW) else ()
        builds[f"{number:03}-{way}.cubin"] = Build(
            Program(source), architecture(), "O2", defines=defines, device_only=True
        )
    made = compile_all(list(builds.values()))
    folder.mkdir()
    for name, build in builds.items():
        path = made[build]
        assert isinstance(path, Path), path
        (folder / name).write_bytes(path.read_bytes())
    return {name: "right" if name[4:].removesuffix(".cubin") in RIGHT else "wrong" for name in builds}


def evaluate(kc, folder, capture, *words):
    done = kc.run(
        "kc-evaluate",
        capture,
        folder,
        "--runs",
        5,
        "--fresh",
        "--timeout",
        10,
        "--workers",
        1,
        "--json",
        *words,
    )
    assert done.code == 0, done.err
    made = json.loads(done.out)
    assert made["complete"]
    return {Path(each["name"]).name: each for each in made["variants"]}


def outcomes(found):
    return {name: each["outcome"] for name, each in found.items()}


def is_shared(each) -> bool:
    return not all(case["own_process"] for case in each["cases"])


@pytest.fixture
def capture(kc, built):
    return kc.capture("takes_200_us", built["known_times"])


@pytest.mark.alone
def test_verdicts_are_those_of_processes_of_their_own(kc, capture, tmp_path):
    folder = tmp_path / "variants"
    ways = ("right", "marks", "finds", "marks-few", "finds-few", "wrong", "right", "faults", "allocates")
    ways += ("finds", "prints", "recurses")
    wanted = make(folder, *ways, "hangs", *reversed(ways), "right", "right")
    found = evaluate(kc, folder, capture)
    assert outcomes(found) == wanted, {name: each["reasons"] for name, each in found.items()}
    for name in sorted(wanted)[: len(ways)]:
        done = kc.run("kc-validate", capture, "--variant", folder / name, "--fresh", "--timeout", 10)
        assert done.code == (0 if wanted[name] == "right" else 1), (name, done.err)
    # What allocates, prints or is wrong had a process that no other variant had run in.
    for name, each in found.items():
        if wanted[name] == "wrong" or "allocates" in name or "prints" in name:
            assert not is_shared(each), name
    assert any(map(is_shared, found.values()))
    # The fastest is sure, and kc-validate takes no verdict from a process that others had run in.
    best = min((each for each in found.values() if each["rank"]), key=lambda each: each["rank"])
    assert not is_shared(best)
    shared = next(name for name, each in found.items() if is_shared(each))
    with ReplayerWatch() as watch:
        assert kc.run("kc-validate", capture, "--variant", folder / shared).code == 0
    assert watch.seen


@pytest.mark.alone
def test_right_variants_share_two_processes(kc, capture, tmp_path):
    folder = tmp_path / "variants"
    wanted = make(folder, *["right"] * 24)  # each slower than the one before: only the first leads
    with ReplayerWatch() as watch:
        found = evaluate(kc, folder, capture)
    assert outcomes(found) == wanted
    assert (watch.count("--keep"), watch.count("--keep-timed")) == (1, 1)
    assert len(watch.seen) < len(wanted) / 2, watch.seen
    assert sum(map(is_shared, found.values())) >= len(wanted) - 2


@pytest.mark.alone
def test_a_fault_or_a_hang_costs_its_process_and_no_verdict(kc, capture, tmp_path):
    folder = tmp_path / "variants"
    wanted = make(folder, "right", "right", "faults", "right", "hangs", "right", "right", "faults", "right")
    with ReplayerWatch() as watch:
        found = evaluate(kc, folder, capture)
    assert outcomes(found) == wanted, {name: each["reasons"] for name, each in found.items()}
    # One for all until the first fault; another one in which that is repeated, and so on.
    assert 4 <= watch.count("--keep") <= 2 + 2 * 3
