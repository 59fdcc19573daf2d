"""Find mmdebstrap, or unpack it into the cache. Nothing is installed on the machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kerncap_stages.errors import DeviceError, Refused
from kerncap_stages.rocm_root.cache import find_cache_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

# mmdebstrap is one Perl script; the keyring is needed on machines that are not Debian themselves.
_PACKAGES = ("debian-archive-keyring", "mmdebstrap")


def make_command(suite: str, mirror: str | None, apt_options: Sequence[str], log: TextIO) -> list[str]:
    """Return the command that writes a minimal system with apt to standard output, as a tar stream.

    Without a ``mirror`` mmdebstrap chooses one; ``find_mirror`` finds it in the new system.
    """
    for needed in ("apt-get", "dpkg-deb", "perl", "tar"):
        if shutil.which(needed) is None:
            raise Refused(
                f"making a root needs {needed}", hint="on a machine without apt, use the Containerfile"
            )
    # Images without recommended packages have perl-base only, which lacks most of perl's modules.
    complete = ["perl", "-MPod::Usage", "-e", 'require "syscall.ph"']
    if subprocess.run(complete, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Refused("making a root needs perl with its own modules", hint="as root: apt-get install perl")
    tool, keyring = shutil.which("mmdebstrap"), Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    if tool is None or not keyring.exists():
        unpacked = _unpack(log)
        tool, keyring = str(unpacked / "usr/bin/mmdebstrap"), unpacked / keyring.relative_to("/")
    options = [f"--aptopt={line}" for line in apt_options]
    mode = "root" if os.geteuid() == 0 else "unshare"
    return [tool, f"--mode={mode}", "--variant=apt", "--format=tar", f"--keyring={keyring}",
            "--include=ca-certificates", *options, suite, "-", *([mirror] if mirror else [])]  # fmt: skip


def find_mirror(files: Path, suite: str) -> str:
    """Find the archive of the system at ``files``; mmdebstrap wrote it there."""
    text = (files / "etc/apt/sources.list").read_text()
    entry = re.search(rf"^deb (?:\[[^\]]*\] )?(\S+) {re.escape(suite)} ", text, re.MULTILINE)
    if entry is None:
        raise DeviceError(
            f"the new root's apt names no archive of {suite}", hint="name one with --mirror URL"
        )
    return entry[1].rstrip("/")


def _unpack(log: TextIO) -> Path:
    """Download and unpack the packages, as any user may. Returns the folder that contains ``usr/bin``."""
    place = find_cache_folder() / "tools" / "mmdebstrap"
    if (place / "usr/bin/mmdebstrap").exists():
        return place
    making = place.with_name(f".making-{os.getpid()}")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    try:
        _download(making, log)
        for package in making.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(package), str(making)], check=True, stderr=log)
            package.unlink()
        shutil.rmtree(place, ignore_errors=True)
        making.rename(place)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return place


def _download(folder: Path, log: TextIO) -> None:
    download = ["apt-get", "download", "-q", *_PACKAGES]
    if os.geteuid() == 0:
        download[1:1] = ["-o", "APT::Sandbox::User=root"]  # apt's own user cannot write to the cache
    if subprocess.run(download, cwd=folder, stdout=log, stderr=log, check=False).returncode == 0:
        return
    updated = os.geteuid() == 0 and subprocess.run(
        ["apt-get", "update", "-q"], stdout=log, stderr=log, check=False
    )
    if (
        not updated
        or subprocess.run(download, cwd=folder, stdout=log, stderr=log, check=False).returncode != 0
    ):
        raise Refused(
            "mmdebstrap is not installed and apt-get could not download it",
            hint="as root: apt-get update; or apt-get install mmdebstrap",
        )
