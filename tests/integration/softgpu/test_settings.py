"""What the environment asks of the software GPU: commands refuse what the library would not take."""

from __future__ import annotations

import os
import subprocess

import pytest

from kerncap_stages.errors import ExitCode, UsageError
from kerncap_stages.machine.softgpu import SoftGpu, check_variables

TAKEN = [
    ("SCHEDULE", "hardware-like"),
    ("SCHEDULE", f"adversarial:{2**64 - 1}"),
    ("CLOCK", "steady"),
    ("CLOCK", f"jumps:{2**64 - 1}"),
    ("UNSET", "leftovers"),
    ("LDS", "stop"),
    ("WORKERS", "1024"),
    ("GPUS", "8"),
    ("VRAM_BYTES", str(256 << 20)),
    ("TARGET", "gfx1100"),
]
REFUSED = [
    ("SCHEDULE", "banana"),
    ("SCHEDULE", "adversarial:"),
    ("SCHEDULE", "adversarial:-1"),
    ("SCHEDULE", "adversarial:x"),
    ("SCHEDULE", f"adversarial:{2**64}"),
    ("SCHEDULE", "Hardware-like"),
    ("CLOCK", "jumps"),
    ("CLOCK", "jumps:"),
    ("CLOCK", "jumps:-1"),
    ("CLOCK", "fast"),
    ("UNSET", "kept"),
    ("LDS", "halt"),
    ("WORKERS", "0"),
    ("WORKERS", "+1"),
    ("GPUS", "9"),
    ("VRAM_BYTES", str((256 << 20) - 1)),
    ("VRAM_BYTES", "8GiB"),
    ("TARGET", "gfx906"),
]


def agents(name: str, text: str) -> subprocess.CompletedProcess[str]:
    """ROCr's list of agents, in a program that nobody has checked the variables of."""
    environment = {**SoftGpu(target="gfx90a").make_environment(), f"KERNCAP_SOFTGPU_{name}": text}
    return subprocess.run(
        ["rocminfo"], env=environment, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(("name", "text"), TAKEN)
def test_what_commands_let_through_the_library_takes(name, text):
    SoftGpu().make_environment({f"KERNCAP_SOFTGPU_{name}": text})
    shown = agents(name, text)
    assert "expected" not in shown.stderr
    assert "kerncap software GPU" in shown.stdout


@pytest.mark.parametrize(("name", "text"), REFUSED)
def test_what_commands_refuse_the_library_refuses(stages, name, text):
    """By name, and before the program starts; in a program that is there already, there is no GPU."""
    variables = {f"KERNCAP_SOFTGPU_{name}": text}
    began = stages.folder / "began"
    launched = subprocess.run(
        ["kc-softgpu", "--", "touch", str(began)],
        env=os.environ | variables, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert launched.returncode == ExitCode.USAGE
    assert f"KERNCAP_SOFTGPU_{name}={text}" in launched.stderr
    shown = agents(name, text)
    assert f"KERNCAP_SOFTGPU_{name}={text}: expected" in shown.stderr
    assert "kerncap software GPU" not in shown.stdout
    assert not began.exists()


@pytest.mark.parametrize(("name", "before"), [("SCHEDULE", "adversarial:"), ("WORKERS", "")])
def test_more_digits_than_python_converts_are_refused(name, before):
    variable = f"KERNCAP_SOFTGPU_{name}"
    with pytest.raises(UsageError, match=variable):
        check_variables({variable: before + 5000 * "9"})
    check_variables({variable: before + 5000 * "0" + "7"})


@pytest.mark.parametrize(
    "words",
    [
        ("profile", "--", "touch", "began"),
        ("capture", "--kernel", "any", "--", "touch", "began"),
        ("extract", "--kernel", "any", "--", "touch", "began"),
    ],
)
@pytest.mark.parametrize("is_chosen", [True, False])
def test_a_stage_refuses_a_schedule_that_is_none_before_the_program_starts(stages, words, is_chosen):
    variables = {"KERNCAP_SOFTGPU_SCHEDULE": "banana"}
    if not is_chosen:
        variables["LD_PRELOAD"] = ""
    done = stages.run(*words, **variables).must(ExitCode.USAGE)
    assert "KERNCAP_SOFTGPU_SCHEDULE=banana" in done.err
    assert "hardware-like, adversarial or adversarial:SEED" in done.err
    assert not (stages.folder / "began").exists()


def test_another_installations_copy_is_replaced():
    """A shell may have loaded it, for programs started by hand. A process with two copies crashes."""
    own = SoftGpu().make_environment({})["LD_PRELOAD"]
    for others in ("", ":libother.so"):
        base = {"LD_PRELOAD": f"/elsewhere/libkerncap_softgpu.so:{own}{others}"}
        assert SoftGpu().make_environment(base)["LD_PRELOAD"] == own + others
