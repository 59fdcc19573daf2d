"""What kc-run says and writes before it runs the program."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import manifest_examples as examples
import pytest

from kerncap_stages.cli import named_output
from kerncap_stages.cli.flows import run, run_check, run_variants
from kerncap_stages.cli.flows.known_verdicts import KnownVerdicts
from kerncap_stages.cli.flows.run_check import CheckedDispatch, explain_failed_check
from kerncap_stages.cli.flows.run_compare import Comparison, describe_times
from kerncap_stages.cli.flows.run_json import write_json
from kerncap_stages.cli.named_output import begin_output
from kerncap_stages.collect.program import ProgramSpec
from kerncap_stages.errors import DeviceError, UsageError


def test_a_kernel_of_several_cases_is_named_once(tmp_path, monkeypatch):
    code = tmp_path / "fast.hsaco"
    code.write_bytes(bytes(8))
    monkeypatch.setattr(run_variants, "find_captures", lambda *_: (None, ["a", "b", "c"]))
    monkeypatch.setattr(run_variants, "load_as", lambda *_: examples.capture())
    name = examples.capture().kernel.demangled_name
    with pytest.raises(UsageError, match="--kernel nothing: no such kernel was captured") as refused:
        run_variants.choose_variants(None, code, kernel="nothing", capture="project")
    assert refused.value.hint == f"there are: {name}"


VARIANT = SimpleNamespace(
    name="step(float*)",
    symbol="_Z4stepPf",
    capture_digest="c" * 64,
    variant_digest="v" * 64,
    verdicts=KnownVerdicts(),
)


def checked(*passed):
    return [
        CheckedDispatch(VARIANT, 71, number, "d" * 64, None if each is None else "e" * 64, each, None)
        for number, each in enumerate(passed)
    ]


@pytest.mark.parametrize(
    ("passed", "why"),
    [
        ((), "the variant was compared in no dispatch"),
        ((None, None), "the variant was compared in no dispatch"),
        ((True, None, False), "the variant was wrong in 1 of 2 compared dispatches"),
        ((True, None), None),
    ],
)
def test_a_failed_check_says_which_way(passed, why):
    assert explain_failed_check(checked(*passed)) == why


def test_what_a_failed_check_found_is_written(tmp_path):
    page = tmp_path / "page.json"
    write_json(page, ProgramSpec(("./app", "7")), [VARIANT], checked=checked(False, None))
    read = json.loads(page.read_text())
    assert (read["schema_version"], read["command"], read["processes"]) == (1, ["./app", "7"], 0)
    assert (read["exit_code"], read["exit_signal"], read["wall_ns"]) == (None, None, None)
    assert (read["kernels"][0]["symbol"], read["kernels"][0]["dispatches"]) == ("_Z4stepPf", 0)
    assert [each["passed"] for each in read["check"]] == [False, None]
    assert [each["validation"] for each in read["check"]] == ["e" * 64, None]
    assert "compare" not in read


def write_page(path):
    begin_output(path)
    write_json(path, ProgramSpec(("./app",)), [VARIANT])


def test_a_device_or_a_pipe_that_is_named_for_json_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDWR | os.O_NONBLOCK), "rb", buffering=0) as reader:
        write_page(pipe)
        assert json.loads(reader.read(1 << 16))["command"] == ["./app"]
    assert pipe.is_fifo()
    device = tmp_path / "device"
    device.symlink_to(os.devnull)
    write_page(device)
    assert stat.S_ISCHR(device.stat().st_mode)


def test_an_earlier_file_for_json_is_removed_and_a_link_to_it_stays(tmp_path):
    page, link = tmp_path / "page.json", tmp_path / "link.json"
    page.write_text("of an earlier run\n")
    link.symlink_to(page)
    begin_output(link)
    assert not page.exists()
    write_page(link)
    assert link.is_symlink()
    assert json.loads(page.read_text())["exit_code"] is None


def test_json_that_cannot_be_written_names_the_file_and_leaves_none(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"^--json /proc/page\.json: "):
        run._prepare_json(Path("/proc/page.json"))
    full = Path("/dev/full")
    with pytest.raises(DeviceError, match=r"^--json /dev/full: No space left on device"):
        write_page(full)
    assert full.is_char_device()
    page = tmp_path / "page.json"
    monkeypatch.setattr(named_output, "open_output", lambda _: full.open("wb", buffering=0))
    page.write_text("{")
    with pytest.raises(DeviceError, match="the results were not written"):
        write_json(page, ProgramSpec(("./app",)), [VARIANT])
    assert not page.exists()


def test_json_to_standard_output_does_not_write_over_the_programs_output(tmp_path):
    path = tmp_path / "out"
    kept, other = os.dup(1), os.open(path, os.O_WRONLY | os.O_CREAT)
    os.dup2(other, 1)
    try:
        os.write(1, b"of the program\n")
        write_page(path)
    finally:
        os.dup2(kept, 1)
    first, _, rest = path.read_text().partition("\n")
    assert first == "of the program"
    assert json.loads(rest)["command"] == ["./app"]


def test_times_are_named():
    compared = Comparison(6, False, [10**9] * 6, [8 * 10**8] * 6)
    _, wall, ratio, what = describe_times(compared)
    assert wall.endswith("median: captured kernel 1.00 s, variant 800 ms")
    assert ratio.startswith("wall times, variant / captured kernel: 0.8000, the median of 6 ratios")
    assert ratio.endswith("96.9 % confidence interval 0.8000 to 0.8000")
    assert what == "the program took less time with the variant"
    compared = Comparison(6, True, [10**9], [8 * 10**8])
    *_, ratio, few, software = describe_times(compared)
    assert ratio.endswith(
        "the median of 1 ratio, one for each pair of runs; the ratios go from 0.8000 to 0.8000"
    )
    assert few == "fewer than 6 pairs of runs give no confidence interval of 95 %: `--compare 6`"
    assert software == "on the software GPU: this says nothing about the time on hardware"
    assert list(describe_times(Comparison(6, True))) == ["no pair of runs was whole, so there are no times"]


def test_a_program_that_is_checked_waits_for_its_captures(monkeypatch):
    """Without that, a CUDA program that ends right after the kernel takes its last captures along."""
    asked = []
    monkeypatch.setattr(run_check, "run_capture", lambda _store, _spec, options: asked.append(options) or ())
    variant = SimpleNamespace(**vars(VARIANT), shape=None, capture=examples.capture())
    wanted = run_check.CheckRequest(2, None, any_code=False)
    spec = ProgramSpec(("./app",), in_foreground=True)
    assert run_check.check_dispatches(None, spec, [variant], wanted, lambda _text: None) == []
    (options,) = asked
    assert options.hold
    assert options.selections[0].count == 2
