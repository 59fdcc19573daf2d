"""Which versions of packages a root got, and whether they are ones that are known to work."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerncap_stages.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kerncap_stages.rocm_root.recipes import Recipe


def installed(files: Path) -> dict[str, str]:
    """Package to version, of all that is installed in the root at ``files``, as dpkg's own database says."""
    packages = {}
    for paragraph in (files / "var/lib/dpkg/status").read_text().split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            packages[fields["Package"]] = fields["Version"]
    return packages


def upstream(version: str) -> tuple[int, ...]:
    """Numbers of the upstream part: ``1:21.1.8-13`` gives (21, 1, 8)."""
    plain = version.partition(":")[2] or version
    digits = re.match(r"[0-9.]*", plain)
    return tuple(int(part) for part in digits[0].split(".") if part) if digits else ()


def check(recipe: Recipe, layers: Sequence[str], packages: Mapping[str, str]) -> None:
    """Raise DeviceError, naming every package whose version is not a supported one."""
    wrong = []
    for name, (low, high) in recipe.ranges(tuple(layers)).items():
        have = packages.get(name)
        if have is None:
            wrong.append(f"{name} is missing")
        elif not upstream(low) <= upstream(have) < upstream(high):
            wrong.append(f"{name} is {have}, supported is {low} up to, not including, {high}")
    if wrong:
        raise DeviceError(
            f"the archive's {recipe.suite} no longer has ROCm {recipe.rocm}: " + "; ".join(wrong),
            hint=f"take the state of {recipe.snapshot} from Debian's snapshot archive: --mirror URL, "
            f"a URL that ends in /archive/debian/{recipe.snapshot}",
        )
