"""The driver's files, as programs look at them before they ask ROCm: by every way that a program has."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import softgpu
from programs import Build, programs

PROCESSES = {program.name: program for program in programs("processes")}

# os.path asks stat64 or statx, os.scandir readdir64, shutil and os.fwalk openat and fdopendir.
LOOKS = """
import glob, json, os, pathlib, stat
render = pathlib.Path("/dev/dri/renderD128")
module = "/sys/module/amdgpu"
walked = sorted(os.path.join(top, name) for top, _, names, _ in os.fwalk(module) for name in names)
with os.scandir("/dev/dri") as entries:
    kinds = {e.name: (e.is_dir(), e.is_symlink(), stat.S_ISCHR(e.stat().st_mode)) for e in entries}
print(json.dumps({
    "exists": [os.path.exists(path) for path in ("/dev/kfd", "/dev/dri", "/sys/class/drm", module)],
    "listed": sorted(os.listdir("/dev/dri")),
    "in_dev": sorted({"kfd", "dri", "null"} & set(os.listdir("/dev"))),
    "in_class": sorted({"drm", "kfd"} & set(os.listdir("/sys/class"))),
    "kinds": kinds,
    "globbed": sorted(glob.glob("/sys/class/drm/renderD*/device/uevent")),
    "rdev": [os.major(render.stat().st_rdev), os.minor(render.stat().st_rdev)],
    "is_char": render.is_char_device(),
    "same": os.path.samefile("/sys/class/kfd/kfd", "/sys/devices/virtual/kfd/kfd"),
    "real": os.path.realpath("/sys/module/amdgpu/drivers/pci:amdgpu/0000:02:00.0"),
    "resolved": str(pathlib.Path("/sys/class/drm/card1/device").resolve()),
    "is_link": os.path.islink("/sys/class/drm/card0"),
    "walked": walked,
    "state": pathlib.Path("/sys/module/amdgpu/initstate").read_text(),
    "access": [os.access("/dev/kfd", os.W_OK), os.access("/sys/module/amdgpu/initstate", os.W_OK)],
    "nodes": sorted(path.name for path in pathlib.Path("/sys/class/kfd/kfd/topology/nodes").iterdir()),
    "missing": [os.path.lexists(path) for path in ("/dev/dri/card2", "/sys/class/kfd/kfd/nothing")],
}))
"""


def test_python_sees_the_driver_by_every_function():
    done = softgpu.run(["python3", "-c", LOOKS], "gfx90a", gpus=2)
    assert done.returncode == 0, done.stderr
    device = [False, False, True]
    assert json.loads(done.stdout) == {
        "exists": [True] * 4,
        "listed": ["card0", "card1", "renderD128", "renderD129"],
        "in_dev": ["dri", "kfd", "null"],
        "in_class": ["drm", "kfd"],
        "kinds": dict.fromkeys(["card0", "card1", "renderD128", "renderD129"], device),
        "globbed": [f"/sys/class/drm/renderD{minor}/device/uevent" for minor in (128, 129)],
        "rdev": [226, 128],
        "is_char": True,
        "same": True,
        "real": "/sys/devices/pci0000:00/0000:02:00.0",
        "resolved": "/sys/devices/pci0000:00/0000:02:00.0",
        "is_link": True,
        "walked": ["/sys/module/amdgpu/initstate"],
        "state": "live\n",
        "access": [True, False],
        "nodes": ["0", "1", "2"],
        "missing": [False, False],
    }


@pytest.mark.parametrize("build", [pytest.param(Build(PROCESSES["looks_at_files"]), id="looks_at_files")])
def test_the_c_library_shows_the_same(build, executable):
    done = softgpu.run([str(executable(build))], "gfx942")
    assert done.returncode == 0, done.stderr
    pci = "/sys/devices/pci0000:00/0000:01:00.0"
    assert dict(line.split(": ", 1) for line in done.stdout.splitlines()) == {
        "exists": "yes",
        "render": "226:128",
        "access": "yes",
        "canonical": pci,
        "realpath": "/sys/devices/virtual/kfd/kfd/topology/nodes/1",
        "link": "../../../bus/pci/drivers/amdgpu",
        "scandir": ". .. card0 renderD128",
        "glob": "/sys/class/drm/card0/device/vendor",
        "walk": "initstate drivers/ pci:amdgpu/",
        "descriptor": "folder 1 same",
        "vendor": "0x1002",
        "opened": "device",
        "missing": "missing",
        "others": "there",
    }


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("test -c /dev/kfd && test -w /dev/kfd && test -d /dev/dri && test ! -e /dev/dri/card1", ""),
        ("ls /dev/dri", "card0\nrenderD128\n"),
        ("ls -d /dev/kf*", "/dev/kfd\n"),
        ("cat /sys/module/amdgpu/initstate", "live\n"),
        ("stat -c '%F %t:%T' /dev/dri/renderD128", "character special file e2:80\n"),
        ("readlink -f /sys/class/drm/card0/device", "/sys/devices/pci0000:00/0000:01:00.0\n"),
        ("ls -ld /dev/kfd /dev/dri/.. | cut -c 1-11", "dr-xr-xr-x \ncrw-rw-rw- \n"),
        ("cd /dev && find /sys/module/amdgpu -type f", "/sys/module/amdgpu/initstate\n"),
    ],
)
def test_the_shell_and_its_tools_see_it(command, wanted):
    done = softgpu.run(["bash", "-c", command], "gfx90a")
    assert (done.returncode, done.stdout, done.stderr) == (0, wanted, "")


def test_without_the_library_nothing_of_it_is_there():
    done = subprocess.run(["ls", "-d", "/dev/kf*"], capture_output=True, text=True, check=False)
    assert done.returncode != 0


def test_bad_settings_show_no_files():
    done = softgpu.run(["ls", "/dev/kfd"], "gfx90a", variables={"KERNCAP_SOFTGPU_WORKERS": "0"})
    assert done.returncode != 0
    assert "KERNCAP_SOFTGPU_WORKERS=0" in done.stderr


def test_stage_that_sees_our_kfd_does_not_take_it_for_the_machines():
    """It is on the software GPU itself, and so is a program that it starts with another environment."""
    asks = (
        "import json; from kerncap_stages.machine.softgpu import fall_back; print(json.dumps(fall_back({})))"
    )
    # Of the installed package, not of the folder that tests run in.
    done = softgpu.run([sys.executable, "-P", "-c", asks], "gfx90a")
    assert "libkerncap_softgpu.so" in json.loads(done.stdout)["LD_PRELOAD"], done.stderr
