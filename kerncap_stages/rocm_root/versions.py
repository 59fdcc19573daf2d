"""Read the versions of a root's packages, and check that they are supported."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerncap_stages.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.rocm_root.recipes import Recipe


def read_installed(files: Path) -> dict[str, str]:
    """Read the installed packages and their versions from the dpkg database of the root at ``files``."""
    packages = {}
    for paragraph in (files / "var/lib/dpkg/status").read_text().split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            packages[fields["Package"]] = fields["Version"]
    return packages


def parse_upstream(version: str) -> tuple[int, ...]:
    """Return the numbers of a version's upstream part: ``1:21.1.8-13`` gives (21, 1, 8)."""
    plain = version.partition(":")[2] or version
    digits = re.match(r"[0-9.]*", plain)
    return tuple(int(part) for part in digits[0].split(".") if part) if digits else ()


def check(recipe: Recipe, layers: Sequence[str], packages: Mapping[str, str]) -> None:
    """Raise DeviceError if a package is missing or its version is not supported; it names all of these."""
    wrong = []
    for name, (low, high) in recipe.list_ranges(tuple(layers)).items():
        have = packages.get(name)
        if have is None:
            wrong.append(f"{name} is missing")
        elif not parse_upstream(low) <= parse_upstream(have) < parse_upstream(high):
            wrong.append(f"{name} is {have}; supported are {low} up to, but not including, {high}")
    if wrong:
        raise DeviceError(
            f"the archive's {recipe.suite} no longer has ROCm {recipe.rocm}: " + "; ".join(wrong),
            hint=f"use Debian's snapshot archive of {recipe.snapshot}: --mirror URL, "
            f"with a URL that ends in /archive/debian/{recipe.snapshot}",
        )
